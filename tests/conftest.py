"""The same conditions for every test: one thread, one seed, reproducible property tests."""

import pytest
import torch
from hypothesis import settings

settings.register_profile("aib", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("aib")
torch.set_num_threads(1)  # the tensors here are small; more threads only get in each other's way


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)
