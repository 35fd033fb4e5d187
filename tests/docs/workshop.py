"""A folder as a reader of the pages might have it: photographs, data sets, runs, all small."""

import re
import shutil
from pathlib import Path

import pytest
import torch

import aib
from aib.config.settings import Settings
from aib.data import load
from aib.data.specs import CIFAR10, CIFAR100, CUB200, STL10, SVHN
from aib.runs.files import measured_split, write_evaluation
from tests.data import official
from tests.helpers import photo, start_run
from tests.tools.stored import evaluation

# Data of the runs that the pages name, by the beginning of the name; any other run is of shapes.
TRAINED_ON = {"photos": "folder:photos:image_size=64", "c10": "cifar10"}
MODELS = {"plain": "tiny", "evaluator": "tiny_evaluator"}  # else tiny_aib_qt


def write_data(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The known sets in their official formats, with few images; the specs then expect these."""
    for name in ("cifar10", "cifar100", "svhn", "stl10", "cub"):
        getattr(official, f"write_{name}")(root)
    counts = [(CIFAR10, 100, 20), (CIFAR100, 200, 200), (SVHN, 40, 40), (STL10, 40, 40)]
    for spec, train, test in [*counts, (CUB200, 8, 4)]:
        monkeypatch.setitem(spec.sizes, "train", train)
        monkeypatch.setitem(spec.sizes, "test", test)


def write_photos(folder: Path) -> None:
    """Three classes of photographs, and one more beside them."""
    for name in ("cat", "dog", "owl"):
        (folder / "photos" / name).mkdir(parents=True)
        for i in range(3):
            photo(64, 48, seed=i).save(folder / "photos" / name / f"{i}.jpg")
    shutil.copy(folder / "photos" / "cat" / "0.jpg", folder / "photo.jpg")


def write_package(folder: Path) -> None:
    """The packaged model with a sixteenth of its width and random weights."""
    model = aib.create_model("lite2_masked", 1000, 224, width=0.0625)
    model.save_pretrained(folder / "lite2_masked")


def write_run(folder: Path) -> None:
    """A run of that name as training leaves it, with an untrained small model."""
    data_name = TRAINED_ON.get(re.split(r"[_-]", folder.name)[0], "shapes:count=64")
    data = load(data_name, "train", holdout=0.2)
    model_name = MODELS.get(folder.name, "tiny_aib_qt")
    torch.manual_seed(0)
    model = aib.create_model(model_name, data.num_classes, width=0.25).eval()
    model.preprocessing = data.preprocessing
    settings = Settings(data=data_name, model=model_name, holdout=0.2).updated(width=0.25)
    split = measured_split(data_name)
    held_out = None
    if split == "val":
        held_out = load(data_name, "val", seed=settings.seed, holdout=0.2).keys
    run = start_run(folder, model, settings, held_out)
    run.log({"step": 1, "epoch": 0, "seconds": 1.0})
    write_evaluation(run.folder, f"{data_name} {split}", evaluation(50.0, data.name, split))
    run.write_weights(model)
