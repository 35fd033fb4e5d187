"""A small untrained model, a few shapes, and a run's folder made of them."""

import torch
from torch import nn

import aib
from aib.data import Batches, load
from aib.data.imageset import ImageSet
from aib.data.split import sample_indices
from aib.settings import Settings
from aib.training.folder import RunFolder


class Net(nn.Module):
    """Two layers that somebody else wrote."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(6, 8, 3, 2, 1), nn.ReLU())
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        return self.fc(self.second(self.first(x)).mean((2, 3)))


def shapes(count: int = 24) -> ImageSet:
    data = load("shapes", "test", holdout=0)
    return data.subset(sample_indices(len(data), count, 0))


def make_model(name: str = "tiny_aib_qt", data: ImageSet | None = None, **options):
    torch.manual_seed(0)
    model = aib.create_model(name, width=0.25, **options).eval()
    if data is not None:
        model.preprocessing = data.preprocessing
    return model


def feed(data: ImageSet, batch_size: int = 8) -> Batches:
    return Batches(data, batch_size)


def make_run(folder, name: str = "tiny_aib_qt", model=None, **settings):
    """What `aib train` leaves behind, less the training."""
    data = shapes(2)
    model = make_model(name, data) if model is None else model
    made_with = Settings(data="shapes", model=name).updated(width=0.25, **settings)
    run = RunFolder.create(folder, model, made_with)
    run.write_weights(model)
    return folder
