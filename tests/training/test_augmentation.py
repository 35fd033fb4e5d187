"""Training with augmentation and smoothed labels, end to end."""

from dataclasses import replace

import pytest
from torch import nn

from aib.config.settings import Settings
from aib.training.fit import fit
from tests.helpers import SMALL, image_set, same_weights, small_model

ALL: dict = {"trivial_augment": True, "alternate_flip": True}


def trained(s: Settings) -> nn.Module:
    return fit(small_model(num_classes=4), image_set(), s).model


@pytest.mark.parametrize("name", [*ALL, "label_smoothing"])
def test_each_setting_reaches_the_training(name: str) -> None:
    short = replace(SMALL, epochs=2 if name == "alternate_flip" else 1)
    changed = replace(short, **{name: ALL.get(name, 0.1)})
    assert not same_weights(trained(changed), trained(short))


def test_without_augmentation_none_of_them_applies() -> None:
    s = replace(SMALL, augment=False, epochs=1)
    assert same_weights(trained(s), trained(replace(s, **ALL)))
