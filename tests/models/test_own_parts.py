"""AIB(stem, tail, head): the method around modules of one's own."""

import pytest
import torch
from torch import nn

import aib
from aib.models.attention import AttentionParameters, SpatialAttention
from aib.models.latent import mlp_decoder
from tests.helpers import images

B, C, K = 2, 5, 8


class Own(nn.Conv2d):
    def __init__(self):
        super().__init__(6, 1, 1)

    def forward(self, f):
        return AttentionParameters(super().forward(f).sigmoid().squeeze(1))


def compose(attention=None, **options):
    stem = nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1), nn.BatchNorm2d(6), nn.ReLU())
    tail = nn.Sequential(nn.Conv2d(6, 7, 3, 2, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    head = aib.VariationalHead(7, K, mlp_decoder(K, C))
    return aib.AIB(stem, tail, head, C, attention=attention or Own(), **options)


def test_own_modules_are_a_model_that_trains_and_explains():
    model = compose(quantizer=aib.AnchorQuantizer(4))
    aib.aib_loss(model.train()(images()), torch.arange(B)).total.backward()
    assert all(p.grad is not None for p in model.parameters())
    assert model.explain(images()).attention.shape == (B, 32, 32)


def test_an_attention_that_gives_another_shape_is_an_error():
    for wrong in (nn.Conv2d(6, 1, 1), SpatialAttention(nn.Conv2d(6, 2, 1), None)):
        with pytest.raises(aib.AibError, match=r"AttentionParameters.*\[2, 16, 16\]"):
            compose(wrong)(images())


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
