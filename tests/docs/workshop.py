"""A folder as a reader of the pages might have it: photographs, data sets, runs, all small."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import aib
from aib.config.own_images import SMALLEST, own_images
from aib.config.settings import Settings
from aib.data import load
from aib.data.specs import CIFAR10, CIFAR100, CUB200, STL10, SVHN
from aib.evaluation.error import Evaluation
from aib.runs.files import measured_split
from tests.data import official
from tests.helpers import start_run

# Data of the runs that the pages name; any other run is of shapes.
TRAINED_ON = {"photos": "folder:photos:image_size=64", "c10": "cifar10"}
MODELS = {"plain": "tiny", "evaluator": "tiny_evaluator"}  # and of which model; else tiny_aib_qt


def write_data(root: Path) -> None:
    """The known sets in their official formats, with few images."""
    official.write_cifar10(root)
    official.write_cifar100(root)
    official.write_svhn(root)
    official.write_stl10(root)
    official.write_cub(root)


def pretend_they_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many images as `write_data` writes are what the specs expect."""
    counts = [(CIFAR10, 100, 20), (CIFAR100, 200, 200), (SVHN, 40, 40), (STL10, 40, 40)]
    for spec, train, test in [*counts, (CUB200, 8, 4)]:
        monkeypatch.setitem(spec.sizes, "train", train)
        monkeypatch.setitem(spec.sizes, "test", test)


def write_photos(folder: Path) -> None:
    """Three classes of coloured JPEGs, and one more photograph beside them."""
    rng = np.random.default_rng(0)
    for name, color in {"cat": 60, "dog": 130, "owl": 200}.items():
        (folder / "photos" / name).mkdir(parents=True)
        for i in range(3):
            pixels = rng.normal(color, 30, (48, 64, 3)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / "photos" / name / f"{i}.jpg")
    shutil.copy(folder / "photos" / "cat" / "0.jpg", folder / "photo.jpg")


def write_package(folder: Path) -> None:
    """The packaged model, as narrow as `ways.SMALL` makes models, with random weights."""
    torch.manual_seed(0)
    options = own_images(gpu=False, image_size=SMALLEST).options
    model = aib.create_model("vgg_aib_masked", 37, 224, options=replace(options, width=0.0625))
    model.save_pretrained(folder / "pets_masked")


def write_run(folder: Path) -> None:
    """A run of that name as training leaves it, with an untrained small model.

    Called with the workshop as the current folder.
    """
    first = re.split(r"[_-]", folder.name)[0]
    name = TRAINED_ON.get(first, "shapes:count=64")
    data = load(name, "train", holdout=0)
    model_name = MODELS.get(folder.name, "tiny_aib_qt")
    torch.manual_seed(0)
    model = aib.create_model(model_name, data.num_classes, width=0.25).eval()
    model.preprocessing = data.preprocessing
    settings = Settings(data=name, model=model_name, holdout=0.2).updated(width=0.25)
    run = start_run(folder, model, settings)
    run.log({"step": 1, "epoch": 0, "seconds": 1.0})
    split = measured_split(settings.data)
    metrics = Evaluation(
        data.name, split, "own", 8, 50.0, (40.0, 60.0), None, None, 0.5, 1.0, None, "4x12",
        "probabilities", 100.0,
    )  # fmt: skip
    run.write_evaluation(f"{name} {split}", metrics.to_dict())
    run.write_weights(model)
