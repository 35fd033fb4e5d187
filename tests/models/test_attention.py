"""Attention: depth and guide, against their formulas."""

import torch
from torch import nn

import aib


def test_a_deeper_attention_sees_further():
    def reach(depth: int) -> int:
        torch.manual_seed(0)
        model = aib.create_model("vgg_aib", width=1 / 16, attention_depth=depth).eval()
        f = torch.randn(1, 16, 15, 15, requires_grad=True)
        model.attention(f).mu[0, 7, 7].backward()
        return int((f.grad.abs().sum((0, 1)) > 0).any(0).sum())

    assert [reach(depth) for depth in (0, 1, 3)] == [3, 5, 9]


def test_a_guided_attention_is_computed_from_class_maps_with_a_second_head(tmp_path):
    """Against the layers written out, in evaluation, where BatchNorm is a line."""
    torch.manual_seed(0)
    options = {"width": 1 / 8, "num_classes": 3, "attention_guide": True}
    model = aib.create_model("tiny_aib_qt", **options).eval()
    attention = model.attention
    for norm in attention.modules():
        if isinstance(norm, nn.BatchNorm2d):
            for value in (norm.weight, norm.bias, norm.running_mean):
                nn.init.normal_(value)
    f = torch.randn(2, 8, 5, 5)

    def normed(y: torch.Tensor, norm: nn.BatchNorm2d) -> torch.Tensor:
        line = [v[:, None, None] for v in (norm.running_mean, norm.weight, norm.bias)]
        return (y - line[0]) / (1 + norm.eps) ** 0.5 * line[1] + line[2]

    branch = attention.trunk
    convolution, norm, _ = branch.class_maps
    y = torch.einsum("bchw,kc->bkhw", f, convolution.weight[:, :, 0, 0])
    maps = normed(y, norm).clamp(min=0)
    one, norm = branch.to_one
    score = normed(nn.functional.conv2d(maps, one.weight, padding=1), norm)
    found = attention(f)
    torch.testing.assert_close(found.mu, 1 / (1 + torch.exp(-score[:, 0])))
    logits = torch.einsum("bchw,kc->bk", maps, branch.to_logits.weight[:, :, 0, 0]) / 25
    torch.testing.assert_close(found.aux_logits, logits)

    model.save_pretrained(tmp_path)
    x = torch.randn(2, 3, 32, 32)
    again = aib.from_pretrained(tmp_path)(x, deterministic=True)
    out = model(x, deterministic=True)
    torch.testing.assert_close(again.aux_logits, out.aux_logits)
    terms = aib.aib_loss(out, torch.tensor([0, 2]))
    expected = -out.aux_logits.softmax(1)[torch.arange(2), torch.tensor([0, 2])].log().mean()
    torch.testing.assert_close(terms.auxiliary, expected)
