"""The claim of the whole project, trained from scratch: the exact bottleneck finds the object."""

from dataclasses import replace

import pytest
import torch

from aib.configs import get_preset
from aib.engine import fit
from aib.interpret.pixels import Feed
from aib.interpret.survey import survey
from aib.train import build_model, load_data


def trained(profile):
    settings = replace(get_preset("shapes_tiny").settings, profile=profile, accelerator="cpu")
    data, test = load_data(settings, "train"), load_data(settings, "test")
    model = fit(build_model(settings, data), data, settings).model
    return survey(model, Feed(test, torch.arange(len(test))), {})


@pytest.mark.slow
def test_the_exact_kl_finds_the_shape_and_the_released_one_clearly_less():
    exact, released = trained("paper"), trained("released")
    figures = {
        name: (found.mean("auroc"), found.mean("correct"))
        for name, found in (("exact", exact), ("released", released))
    }
    print(figures)
    assert exact.mean("auroc") >= 0.9, figures
    assert released.mean("auroc") <= exact.mean("auroc") - 0.05, figures
