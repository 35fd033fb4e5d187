"""Training with augmentation and soft labels, end to end."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from aib.config.settings import Settings
from aib.training.fit import fit
from aib.training.step import Objective
from tests.helpers import SMALL, image_set, images, same_weights, small_model

ALL: dict = {"trivial_augment": True, "alternate_flip": True, "mixup": 0.4, "cutmix": 1.0}


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


def test_wrong_predictions_are_counted_against_the_larger_label() -> None:
    objective = Objective(small_model(num_classes=4).eval(), SMALL)
    x, y = images(16), torch.arange(16) % 4
    soft = 0.6 * torch.eye(4)[y] + 0.4 * torch.eye(4)[y.flip(0)]
    schedule = torch.tensor(0.01), torch.tensor(1.0)
    hard = objective(x, y, *schedule)[1][-1]
    assert 0 < hard <= 16
    assert objective(x, soft, *schedule)[1][-1] == hard
