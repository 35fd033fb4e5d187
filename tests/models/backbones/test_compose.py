"""AIB(stem, tail): the method around two modules of one's own."""

import pytest
import torch
from torch import nn

import aib
from aib.models.attention import AttentionParameters
from tests.helpers import images

B, C, K = 2, 5, 8


def stem():
    return nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1), nn.BatchNorm2d(6), nn.ReLU())


def tail():
    return nn.Sequential(nn.Conv2d(6, 7, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def compose(**options):
    return aib.AIB(stem(), tail(), num_classes=C, **{"latent_dim": K, "quantizer": 4, **options})


def test_two_modules_are_enough():
    model = compose()
    out = model.eval()(images(), samples=(3, 2))
    assert out.sample_logits.shape == (3, 2, B, C)
    assert out.attention.mu.shape == (B, 16, 16)
    aib.aib_loss(model.train()(images()), torch.arange(B)).total.backward()
    assert all(p.grad is not None for p in model.parameters())
    assert model.explain(images()).attention.shape == (B, 32, 32)


def test_the_other_parts_have_the_type_of_the_modules():
    model = aib.AIB(stem().double(), tail().double(), num_classes=C, latent_dim=K, quantizer=4)
    assert {p.dtype for p in model.parameters()} == {torch.float64}
    assert model(images().double()).logits.dtype == torch.float64


def test_probing_the_modules_changes_neither_mode_nor_statistics():
    own = stem().train()
    own[1].eval()
    aib.AIB(own, tail().eval(), num_classes=C)
    assert own.training and not own[1].training
    assert own[1].num_batches_tracked == 0


def test_modules_of_the_wrong_shape_are_refused_with_it():
    with pytest.raises(aib.AibError, match=r"stem must give .*\[2, 3072\]"):
        aib.AIB(nn.Flatten(), tail(), num_classes=C)
    with pytest.raises(aib.AibError, match=r"tail must give .*\[2, 6, 16, 16\]"):
        aib.AIB(stem(), nn.Identity(), num_classes=C)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"quantizer": None},
        {"quantizer": aib.AnchorQuantizer(9)},
        {"attention": None, "quantizer": None},
        {"modulation": "residual", "min_size": 20},
        {"profile": "released"},
    ],
)
def test_a_composed_model_is_saved_and_loaded_with_its_modules(options, tmp_path):
    model, x = compose(**options).eval(), images()
    model.save_pretrained(tmp_path)
    parts = stem(), tail()
    loaded = aib.from_pretrained(tmp_path, backbone=parts)
    assert all(part.training for part in parts)  # copied, not changed
    assert torch.equal(
        model(x, deterministic=True).sample_logits, loaded(x, deterministic=True).sample_logits
    )
    assert loaded.modulation == model.modulation
    assert loaded.min_size == model.min_size


def test_a_composed_model_does_not_load_without_its_modules(tmp_path):
    compose().save_pretrained(tmp_path)
    with pytest.raises(aib.AibError, match="backbone="):
        aib.from_pretrained(tmp_path)
    with pytest.raises(aib.AibError, match="cannot be built from a Sequential"):
        aib.from_pretrained(tmp_path, backbone=stem())


def with_own_attention(**options):
    attention = aib.SpatialAttention(nn.Conv2d(6, 1, 1))
    return compose(attention=attention, **options)


class Own(nn.Conv2d):
    """An attention of one's own that gives `made(scores [B,1,h,w])`."""

    def __init__(self, made):
        super().__init__(6, 1, 1)
        self.made = made

    def forward(self, f):
        return self.made(super().forward(f).sigmoid())


@pytest.mark.parametrize("batch", [2, 3])
@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda a: a, "a Tensor"),
        (lambda a: (a[:, 0], None), "a tuple"),
        (lambda a: AttentionParameters(None), r"mu \[\]"),
        (AttentionParameters, r"mu \[., 1, 16, 16\]"),
        (lambda a: AttentionParameters(a.squeeze(1), a), r"sigma \[., 1, 16, 16\]"),
    ],
)
def test_an_attention_of_another_form_is_refused_with_it(made, said, batch):
    model = compose(attention=Own(made), quantizer=None)
    with pytest.raises(aib.AibError, match=rf"AttentionParameters\(mu, sigma\) .*, not {said}"):
        model(images(batch))


def test_an_attention_of_ones_own_may_have_no_noise():
    model = compose(attention=Own(lambda a: AttentionParameters(a.squeeze(1))))
    assert model(images()).attention.mu.shape == (B, 16, 16)


def test_a_model_with_parts_of_its_own_loads_into_one_made_the_same_way(tmp_path):
    model, x = with_own_attention().eval(), images()
    model.save_pretrained(tmp_path)
    with pytest.raises(aib.AibError, match="the whole model"):
        aib.from_pretrained(tmp_path, backbone=(stem(), tail()))
    template = with_own_attention()
    loaded = aib.from_pretrained(tmp_path, backbone=template)
    assert loaded is not template
    assert torch.equal(model(x, deterministic=True).logits, loaded(x, deterministic=True).logits)


def test_a_ready_made_model_must_agree_where_the_weights_cannot_tell(tmp_path):
    compose(modulation="gate").save_pretrained(tmp_path)
    with pytest.raises(aib.AibError, match="modulation is 'gate' in the file and 'residual'"):
        aib.from_pretrained(tmp_path, backbone=compose(modulation="residual"))
