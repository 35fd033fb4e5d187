"""The Python shown on the pages runs, each page from top to bottom like a notebook."""

from functools import partial
from pathlib import Path

import pytest
import torch
import torchmetrics  # noqa: F401  (not beside a stand-in for torchvision)
from torch import nn

import aib
from aib.data import SPECS, ImageSet
from aib.data.load import READERS
from aib.models import registry
from tests.docs.blocks import PAGES, blocks, name_of
from tests.helpers import make_run, photo
from tests.models.networks import libraries
from tests.runs.server import serving


class Backbone(nn.Module):
    """A reader's network: layers named as a ResNet's, and small."""

    def __init__(self):
        super().__init__()
        for name, inputs, outputs, stride in (("1", 3, 4, 4), ("2", 4, 8, 2), ("3", 8, 8, 2)):
            layer = nn.Conv2d(inputs, outputs, 3, stride, 1), nn.BatchNorm2d(outputs), nn.ReLU()
            self.add_module(f"layer{name}", nn.Sequential(*layer))
        self.fc = nn.Linear(8, 1000)

    def forward(self, x):
        return self.fc(self.layer3(self.layer2(self.layer1(x))).mean((2, 3)))


def pictures(count: int, num_classes: int) -> dict:
    rng = torch.Generator().manual_seed(0)
    images = torch.randint(256, (count, 3, 32, 32), generator=rng, dtype=torch.uint8)
    return {"images": images, "labels": torch.arange(count) % num_classes}


# What a page takes for granted.
GIVEN = {
    "README.md": lambda: {
        "backbone": Backbone(),
        "train_images": ImageSet.from_tensors(**pictures(32, 10)),
        "test_images": ImageSet.from_tensors(**pictures(4, 10)),
        "photo": photo(64, 48, seed=0).save("photo.jpg"),
    },
    "docs/data.md": lambda: pictures(256, 2),
    "docs/train.md": lambda: {"run": make_run(Path("runs/photos"))},
    "docs/method.md": lambda: {"backbone": Backbone()},
}


@pytest.fixture
def aside(tmp_path, monkeypatch):
    """A folder of its own; models at a sixteenth of their width; registrations are undone."""
    monkeypatch.chdir(tmp_path)
    libraries.install(monkeypatch)
    monkeypatch.setattr(aib, "create_model", partial(aib.create_model, width=0.0625))
    for table in (registry.MODELS, registry.BACKBONES, SPECS, READERS):
        for name in ("small", ("small", 32), "small_aib_qt", "blots"):
            monkeypatch.delitem(table, name, raising=False)  # restored, so removed, at the end
    with serving(monkeypatch, tmp_path / "cache"):
        yield


@pytest.mark.parametrize("page", [p for p in PAGES if "python" in dict(blocks(p))], ids=name_of)
@pytest.mark.usefixtures("aside")
@pytest.mark.filterwarnings("ignore:.*of the masks keep less")  # models learn from noise here
def test_the_python_of_a_page_runs(page):
    names = GIVEN.get(name_of(page), dict)()
    for language, text in blocks(page):
        if language == "python":
            exec(compile(text, name_of(page), "exec"), names)
