"""Frozen layers: they do not change, have no optimizer state, and unknown ones are named."""

from dataclasses import replace

import pytest
import torch

import aib
from aib.training.fit import fit
from tests.helpers import SMALL, SmallNet, image_set, small_model


def attached() -> aib.Classifier:
    torch.manual_seed(0)
    return aib.attach(SmallNet(), "features", 4, latent_dim=8, image_size=32)


@pytest.mark.parametrize("ema", [None, 0.5])
def test_only_the_other_layers_change(ema: float | None) -> None:
    model = attached()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    s = replace(SMALL, freeze=("tail.features",), ema=ema, ema_batch_norm=2 if ema else 0)
    fitted = fit(model, image_set(), s, validation=image_set(8))  # also after an evaluation
    for trained in (model, fitted.model):
        after = trained.state_dict()
        kept = {name for name in before if torch.equal(before[name], after[name])}
        assert kept == {name for name in before if name.startswith("tail.features.")}
    assert all(p.requires_grad for p in model.parameters())  # a second training may train all


def test_the_fitted_model_can_be_trained_again() -> None:
    """All but what the caller had frozen, whatever the first training froze."""
    model = attached()
    model.tail.more[0].weight.requires_grad_(False)
    s = replace(SMALL, epochs=1, ema=0.5, freeze=("tail.features",))
    fitted = fit(model, image_set(), s).model
    weights = {name: p for name, p in fitted.named_parameters() if p.dim() > 1}
    before = {name: p.detach().clone() for name, p in weights.items()}
    fit(fitted, image_set(), replace(s, ema=None, freeze=()))
    assert {n for n, p in weights.items() if torch.equal(before[n], p)} == {"tail.more.0.weight"}


def test_frozen_anchors_stay() -> None:
    model = small_model(num_classes=4)
    before = model.quantizer.anchors.detach().clone()
    fit(model, image_set(), replace(SMALL, freeze=("quantizer",)))
    assert torch.equal(model.quantizer.anchors, before)


def test_mistakes_are_named() -> None:
    with pytest.raises(aib.AibError, match=r"no layer 'tail.feature'; .*tail\.features"):
        fit(attached(), image_set(), replace(SMALL, freeze=("tail.feature",)))
    model = attached()
    everything = tuple({name.partition(".")[0] for name, _ in model.named_parameters()})
    with pytest.raises(aib.AibError, match="no parameter left to train"):
        fit(model, image_set(), replace(SMALL, freeze=everything))
    assert all(p.requires_grad for p in model.parameters())
