"""AIB(stem, tail, head): the method around modules of one's own."""

import pytest
import torch
from torch import nn

import aib
from aib.models.attention import AttentionParameters
from aib.models.latent import mlp_decoder
from tests.helpers import images

B, C, K = 2, 5, 8


class Own(nn.Conv2d):
    """An attention that gives `made(scores [B,1,h,w])`."""

    def __init__(self, made):
        super().__init__(6, 1, 1)
        self.made = made

    def forward(self, f):
        return self.made(super().forward(f).sigmoid())


def one_map(a):
    return AttentionParameters(a.squeeze(1))


def compose(made=one_map, **options):
    stem = nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1), nn.BatchNorm2d(6), nn.ReLU())
    tail = nn.Sequential(nn.Conv2d(6, 7, 3, 2, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    head = aib.VariationalHead(7, K, mlp_decoder(K, C))
    return aib.AIB(stem, tail, head, C, attention=Own(made), **options)


def test_own_modules_are_a_model_that_trains_and_explains():
    model = compose(quantizer=aib.AnchorQuantizer(4))
    aib.aib_loss(model.train()(images()), torch.arange(B)).total.backward()
    assert all(p.grad is not None for p in model.parameters())
    assert model.explain(images()).attention.shape == (B, 32, 32)


@pytest.mark.parametrize("batch", [2, 3])
@pytest.mark.parametrize(
    "made",
    [
        lambda a: a,
        lambda a: (a[:, 0], None),
        AttentionParameters,
        lambda a: AttentionParameters(a.squeeze(1), a),
    ],
)
def test_an_attention_of_another_form_is_an_error(made, batch):
    with pytest.raises(aib.AibError, match=rf"AttentionParameters.*\[{batch}, 16, 16\]"):
        compose(made)(images(batch))


def test_a_model_of_own_modules_loads_into_one_made_the_same_way(tmp_path):
    model, x = compose().eval(), images()
    model.save_pretrained(tmp_path)
    for given in (None, nn.Flatten()):
        with pytest.raises(aib.AibError, match="backbone"):
            aib.from_pretrained(tmp_path, backbone=given)
    template = compose()
    loaded = aib.from_pretrained(tmp_path, backbone=template)
    assert loaded is not template
    assert torch.equal(model(x, deterministic=True).logits, loaded(x, deterministic=True).logits)
