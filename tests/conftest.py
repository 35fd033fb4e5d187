"""The same conditions for every test: one thread, one seed, reproducible property tests."""

from functools import lru_cache

import pytest
import torch
from hypothesis import settings

import aib.data.shapes

settings.register_profile("aib", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("aib")
torch.set_num_threads(1)  # the tensors here are small; more threads only get in each other's way
# Most runs are of the shapes: the images of a seed are generated once per process.
aib.data.shapes.generate = lru_cache(maxsize=16)(aib.data.shapes.generate)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)
