import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from aib.errors import AibError
from aib.interpret import gradcam, integrated_gradients, occlusion, saliency


class Net(nn.Module):
    """Logits that are sums over the image: every attribution is known in closed form."""

    def __init__(self, wrapped: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.relu = nn.ReLU()
        self.head = nn.Linear(4, 5)
        self.wrapped = wrapped

    def forward(self, x):
        features = self.relu(self.norm(self.conv(x)))
        logits = self.head(features.mean((2, 3)))
        return SimpleNamespace(logits=logits) if self.wrapped else logits


class Template(nn.Module):
    """Class c's logit is <w_c, x>."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.w = nn.Parameter(torch.randn(5, 3, 8, 8, generator=generator))

    def forward(self, x):
        return torch.einsum("bchw,kchw->bk", x, self.w)


X = torch.randn(3, 3, 8, 8, generator=torch.Generator().manual_seed(2))


@pytest.fixture(autouse=True)
def _needs_captum(request):
    if "without_captum" not in request.node.name:
        pytest.importorskip("captum")


def test_gradcam_weighs_channels_by_their_gradient():
    net = Net().eval()
    maps = gradcam(net, X, "relu", target=2)
    features = net.relu(net.norm(net.conv(X)))
    # The head averages over 64 pixels, so channel k's gradient is its weight / 64 everywhere.
    expected = torch.einsum("bkhw,k->bhw", features, net.head.weight[2] / 64).relu()
    torch.testing.assert_close(maps, expected.detach())
    assert torch.equal(maps, gradcam(net, X, net.relu, target=torch.full((3,), 2)))


def test_the_target_is_the_prediction_unless_given():
    net = Net().eval()
    predicted = net(X).argmax(1)
    torch.testing.assert_close(saliency(net, X), saliency(net, X, target=predicted))
    torch.testing.assert_close(gradcam(net, X, "conv"), gradcam(net, X, "conv", target=predicted))


def test_gradients_of_a_template_are_the_template():
    net = Template()
    torch.testing.assert_close(saliency(net, X, target=1), net.w[1].abs().amax(0).expand(3, 8, 8))
    torch.testing.assert_close(
        integrated_gradients(net, X, target=1), (net.w[1] * X).sum(1), atol=1e-5, rtol=1e-4
    )
    start = torch.ones(3, 1, 1)
    torch.testing.assert_close(
        integrated_gradients(net, X, target=1, baseline=start, chunk=16),
        (net.w[1] * (X - 1)).sum(1),
        atol=1e-5,
        rtol=1e-4,
    )


def test_occlusion_of_a_template_is_what_the_window_held():
    net = Template()
    maps = occlusion(net, X, target=3, window=4, stride=4)
    held = nn.functional.avg_pool2d((net.w[3] * X).sum(1, keepdim=True), 4) * 16
    expected = held.repeat_interleave(4, 2).repeat_interleave(4, 3)[:, 0]
    torch.testing.assert_close(maps, expected.detach(), atol=1e-4, rtol=1e-4)


def test_logits_may_come_in_an_object_and_the_model_is_left_alone():
    net = Net(wrapped=True).train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    with torch.inference_mode():
        maps = [gradcam(net, X, "relu"), integrated_gradients(net, X, steps=4), saliency(net, X)]
    assert all(m.shape == (3, 8, 8) and not m.requires_grad for m in maps)
    plain = Net().eval()
    torch.testing.assert_close(maps[0], gradcam(plain, X, "relu"))
    assert net.training and net.norm.training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert all(p.grad is None for p in net.parameters())
    assert not any(m._forward_hooks or m._backward_hooks for m in net.modules())


def test_any_callable_will_do():
    net = Net().eval()
    maps = gradcam(lambda x: SimpleNamespace(logits=2 * net(x)), X, net.relu)
    torch.testing.assert_close(maps, 2 * gradcam(net, X, "relu"))


def test_bad_input_is_named():
    net = Net()
    with pytest.raises(AibError, match="no layer named 'tail'"):
        gradcam(net, X, "tail")
    with pytest.raises(AibError, match="needs a module"):
        gradcam(lambda x: net(x), X, "relu")
    with pytest.raises(AibError, match=r"\[B,C,h,w\].*\[3, 1\]"):
        gradcam(net, X, "head")
    with pytest.raises(AibError, match=r"\[3,classes\], not \[3, 3, 8, 8\]"):
        saliency(lambda x: x, X)
    with pytest.raises(AibError, match="not 4, 9, 8"):
        occlusion(net, X, window=9)


def test_without_captum_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "captum", None)
    monkeypatch.setitem(sys.modules, "captum.attr", None)
    with pytest.raises(AibError, match=r"pip install '\.\[posthoc\]'"):
        gradcam(Net(), X, "relu")
