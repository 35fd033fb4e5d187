"""The Python shown on the pages runs, each page from top to bottom like a notebook."""

from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

import aib
from aib.data import SPECS, ImageSet
from aib.data.load import READERS
from aib.models import registry
from tests.docs.blocks import PAGES, blocks, name_of
from tests.helpers import make_run
from tests.models.networks import libraries
from tests.runs.server import serving


class Backbone(nn.Module):
    """A reader's network: layers named as a ResNet's, and small."""

    def __init__(self):
        super().__init__()
        self.layer1 = nn.Sequential(nn.Conv2d(3, 4, 3, 4, 1), nn.BatchNorm2d(4), nn.ReLU())
        self.layer2 = nn.Sequential(nn.Conv2d(4, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU())
        self.layer3 = nn.Sequential(nn.Conv2d(8, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU())
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
        "data": ImageSet.from_tensors(**pictures(200, 200)),
    },
    "docs/data.md": lambda: pictures(256, 2),
    "docs/hub.md": lambda: {"run": make_run(Path("runs/photos"))},
    "docs/method.md": lambda: {"backbone": Backbone()},
}
SLOW = {"docs/export.md"}  # tracing a network takes a while
WITH_PYTHON = [
    pytest.param(page, id=name_of(page), marks=[pytest.mark.slow] if name_of(page) in SLOW else [])
    for page in PAGES
    if "python" in dict(blocks(page))
]


@pytest.fixture
def aside(tmp_path, monkeypatch):
    """A folder of its own; models at a sixteenth of their width; registrations are undone."""
    monkeypatch.chdir(tmp_path)
    libraries.install(monkeypatch)
    monkeypatch.setattr(aib, "create_model", partial(aib.create_model, width=0.0625))
    tables = [registry.MODELS, registry.BACKBONES, SPECS, READERS]
    kept = [dict(table) for table in tables]
    with serving(monkeypatch, tmp_path / "cache"):
        yield
    for table, content in zip(tables, kept, strict=True):
        table.clear()
        table.update(content)


@pytest.mark.parametrize("page", WITH_PYTHON)
@pytest.mark.usefixtures("aside")
def test_the_python_of_a_page_runs(page):
    names = GIVEN.get(name_of(page), dict)()
    for language, text in blocks(page):
        if language == "python":
            if "import onnxruntime" in text:
                pytest.importorskip("onnxruntime")  # the last block of its page
            exec(compile(text, name_of(page), "exec"), names)
