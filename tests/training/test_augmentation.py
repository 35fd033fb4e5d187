"""Training with augmentation and smoothed labels, end to end."""

from dataclasses import replace

from torch import nn

from aib.training.fit import fit
from tests.helpers import SMALL, image_set, same_weights, small_model

ALL: dict = {"trivial_augment": True, "alternate_flip": True}


def trained(**changes) -> nn.Module:
    return fit(small_model(num_classes=4), image_set(), replace(SMALL, **changes)).model


def test_each_setting_reaches_the_training_and_none_without_augmentation() -> None:
    plain = trained()
    for name in (*ALL, "label_smoothing"):
        assert not same_weights(trained(**{name: ALL.get(name, 0.1)}), plain), name
    assert same_weights(trained(augment=False), trained(augment=False, **ALL))
