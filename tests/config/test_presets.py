"""Presets: the paper's models and schedules, and that each of them trains."""

from pathlib import Path

import pytest
import torch

import aib
from aib.config.presets import PRESETS, get_preset
from aib.config.settings import Settings
from aib.data import ImageSet
from aib.training.fit import fit
from aib.training.optim import beta_at, learning_rate
from aib.training.train import build_model
from aib.training.warm_start import backbone_of


def is_of_photographs(s: Settings) -> bool:
    return s.data.startswith(("cub200", "pets"))


def kind_of(s: Settings) -> tuple:
    """All but data set and numbers, which choose no other code."""
    chosen = s.updated(data="shapes").to_dict().items()
    return is_of_photographs(s), *(v for _, v in chosen if v is None or isinstance(v, str | bool))


KINDS = {kind_of(preset.settings): name for name, preset in PRESETS.items()}


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


@pytest.mark.parametrize("name", KINDS.values())
def test_every_preset_runs_two_steps(name: str, tmp_path: Path) -> None:
    preset = PRESETS[name].settings
    size = 112 if is_of_photographs(preset) else 32
    images = torch.randint(256, (4, 3, size, size), dtype=torch.uint8)
    data = ImageSet.from_tensors(images, torch.tensor([0, 1, 2, 1]))
    # A narrow model in small batches, as any CPU computes it; everything else is the preset's.
    small = preset.updated(width=1 / 16, batch_size=2, epochs=1, compile=False, precision="fp32")
    small = small.updated(accelerator="cpu")
    if small.lr_backbone is not None:  # the user's --init: weights of a network as narrow
        network = aib.create_model(small.model, 3, 224, width=1 / 16)
        _, layers = backbone_of(network)
        family = small.model.partition("_")[0].replace("vgg", "vgg16")
        prefix = "features." if family == "vgg16" else ""
        weights = {prefix + name: value for name, value in layers.state_dict().items()}
        torch.save(weights, tmp_path / "weights.pth")
        small = small.updated(init=f"{family}:{tmp_path / 'weights.pth'}")
    model = build_model(small, data)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    fitted = fit(model, data, small)
    assert fitted.steps == 2
    assert fitted.last["lr"] == learning_rate(small, 1, 2)
    assert fitted.last["beta"] == beta_at(small, 1, 2)
    unchanged = [name for name, p in model.named_parameters() if torch.equal(p, before[name])]
    assert unchanged == []
    assert all(p.isfinite().all() for p in fitted.model.parameters())
