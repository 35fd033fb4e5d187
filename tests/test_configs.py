"""Presets: the paper's models and schedules, and that each of them trains."""

import pytest
import torch

import aib
from aib.configs import PRESETS, get_preset
from aib.data import ImageSet
from aib.training.loop import fit
from aib.training.optim import beta_at, learning_rate
from aib.training.train import build_model


def test_there_is_a_preset_for_each_of_the_papers_own_results() -> None:
    models = ("vgg_aib", "vgg_aib_qt", "wrn_aib", "wrn_aib_qt")
    paper = {  # Table 1, the four rows called "ours"
        "cifar10": (4.28, 4.10, 3.60, 3.43),
        "cifar100": (21.56, 20.87, 17.82, 17.64),
        "cub200": (23.73, 21.83, 17.26, 15.50),
        "svhn": (3.24, 3.07, 2.76, 2.69),
    }
    for data, errors in paper.items():
        for model, error in zip(models, errors, strict=True):
            preset = PRESETS[f"{data}_{model}"]
            # The paper cuts CUB's images to the birds' boxes.
            assert preset.settings.data == (data + ":crop" if data == "cub200" else data)
            assert preset.settings.model == model
            assert preset.paper_error == error


def test_the_error_for_an_unknown_preset_lists_close_names() -> None:
    with pytest.raises(aib.AibError, match="cifar10_vgg_aib"):
        get_preset("cifar_vgg_aib")


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_runs_two_steps(name: str) -> None:
    preset = PRESETS[name].settings
    size = 224 if preset.data == "cub200:crop" else 32
    images = torch.randint(256, (4, 3, size, size), dtype=torch.uint8)
    data = ImageSet.from_tensors(images, torch.tensor([0, 1, 2, 1]))
    # A narrow model in small batches, not compiled; everything else is the preset's.
    small = preset.updated(width=0.04, batch_size=2, epochs=1, compile=False, accelerator="cpu")
    model = build_model(small, data)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    fitted = fit(model, data, small)
    assert fitted.steps == 2
    assert fitted.last["lr"] == learning_rate(small, 1, 2)
    assert fitted.last["beta"] == beta_at(small, 1, 2)
    unchanged = [name for name, p in model.named_parameters() if torch.equal(p, before[name])]
    assert unchanged == []
    assert all(p.isfinite().all() for p in fitted.model.parameters())
