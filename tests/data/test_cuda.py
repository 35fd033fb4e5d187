"""On a GPU: the same batches, without synchronisation in the loop."""

import pytest
import torch

from aib.data import Batches, batches, load
from tests.data import official

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def close(a, b) -> bool:
    """Division on the GPU may round differently in the last bit."""
    return all(
        torch.allclose(x, u.cpu(), atol=1e-6) and torch.equal(y, v.cpu())
        for (x, y), (u, v) in zip(a, b, strict=True)
    )


@pytest.mark.parametrize("train", [True, False])
def test_the_gpu_gives_what_the_cpu_gives(train):
    data = load("shapes:count=500", "test")
    options = {"train": train, "pad": 4, "trivial_augment": True}
    cpu, gpu = (Batches(data, 64, device=d, **options) for d in ("cpu", "cuda"))
    assert close(cpu.epoch(1), gpu.epoch(1))


@pytest.mark.parametrize("share", [0.25, 0.0])  # images are on the GPU, or stay on the host
def test_decoded_files_give_what_they_give_on_the_cpu(tmp_path, monkeypatch, share):
    monkeypatch.setattr(batches, "DEVICE_SHARE", share)
    official.write_folder(tmp_path, side=80)
    data = load(f"folder:{tmp_path}:image_size=72", "train", holdout=0)
    options = {"train": True, "cache": "memory"}
    cpu, gpu = (Batches(data, 4, device=d, **options) for d in ("cpu", "cuda"))
    assert gpu._images.is_cuda == (share > 0)
    for (x, y), (u, v) in zip(cpu.epoch(1), gpu.epoch(1), strict=True):
        assert torch.equal(y, v.cpu())
        assert (x - u.cpu()).abs().max() < 1.01 / 255 / 0.22  # a pixel's rounding
    torch.cuda.set_sync_debug_mode("error")
    try:
        list(gpu.epoch(2))
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("train", [True, False])
def test_the_loop_never_waits_for_the_device(train):
    options = {"train": train, "pad": 4, "trivial_augment": True, "alternate_flip": True}
    batches = Batches(load("shapes:count=500", "test"), 64, device="cuda", **options)
    torch.cuda.set_sync_debug_mode("error")
    try:
        assert sum(len(x) for x, _ in batches.epoch(0)) >= 448
    finally:
        torch.cuda.set_sync_debug_mode("default")
