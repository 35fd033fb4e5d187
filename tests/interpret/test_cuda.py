"""What the CPU says, a GPU says too; skipped where there is none."""

import pytest
import torch

from aib.data import Batch
from aib.interpret import (
    Localisation,
    compare_maps,
    deletion_insertion,
    gradcam,
    random_map,
    randomise_layers,
    stability,
)
from aib.interpret.measures.swaps import map_encoding, map_reliance
from aib.interpret.metrics.faithfulness import impute_linear
from aib.interpret.metrics.perturb import modifications
from aib.interpret.metrics.probe import jittered_gaussian
from aib.interpret.metrics.swap import Swapping, draw_partners, shuffled
from tests.helpers import numbers

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
PAPER_MODIFICATIONS = modifications()
DEVICES = ("cpu", "cuda")


def rand(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def small_net() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(8, 4),
    )


@pytest.mark.parametrize("name", list(PAPER_MODIFICATIONS))
def test_the_same_pixels_are_modified(name):
    images, foreign = ((256 * rand(n, 3, 32, 32, seed=n)).to(torch.uint8) for n in (50, 20))
    cpu, gpu = (
        PAPER_MODIFICATIONS[name](images.to(d), torch.arange(50), foreign=foreign).cpu().int()
        for d in DEVICES
    )
    # Places, colours and choices agree to the bit; resizing and FFT may round one level apart.
    assert (cpu - gpu).abs().max() <= (0 if name.startswith("color") else 1)


def test_metrics_agree_between_devices():
    maps, noise = rand(2, 64, 16, 16)
    same = rand(64, seed=2) < 0.6
    objects = rand(64, 32, 32, seed=1) < 0.2
    results = []
    for device in DEVICES:
        place = Localisation()
        place.update(maps.to(device), objects.to(device))
        compared = compare_maps(maps.to(device), (maps + noise).to(device))
        score = stability(same.to(device), same.to(device), compared)
        results.append(numbers(score) | numbers(place.compute()))
    assert results[0] == pytest.approx(results[1], rel=1e-4, abs=1e-4)


def test_seeded_maps_agree_to_the_bit():
    maps, index = rand(9, 6, 6), torch.arange(9)
    for make in (
        lambda d: random_map(index.to(d), (6, 6), seed=3),
        lambda d: shuffled(maps.to(d), index, seed=3),
        lambda d: torch.stack(draw_partners(index.to(d), index.to(d) % 3, seed=3)).double(),
    ):
        torch.testing.assert_close(make("cpu"), make("cuda").cpu(), rtol=0, atol=1e-9)
    # exp differs in the last bit
    gaussians = (jittered_gaussian(index.to(d), (6, 6), seed=3).cpu() for d in DEVICES)
    torch.testing.assert_close(*gaussians, rtol=1e-6, atol=1e-6)


def test_explanations_run_on_the_device():
    x = rand(6, 3, 16, 16)
    curves = [
        deletion_insertion(small_net().to(d), x.to(d), x.mean(1).to(d), steps=4) for d in DEVICES
    ]
    cpu, gpu = (found["deletion"].values.cpu() for found in curves)
    torch.testing.assert_close(cpu, gpu, rtol=1e-3, atol=1e-3)
    net = small_net().cuda()
    state = torch.cuda.get_rng_state()
    changes = randomise_layers(net, lambda m, x: m[0](x)[:, 0], x.cuda())
    assert torch.equal(state, torch.cuda.get_rng_state())
    assert [c.layer for c in changes] == ["4", "0"]
    batch = Batch(torch.arange(6).cuda(), x.cuda(), torch.zeros(6, dtype=torch.long).cuda())
    swapping = Swapping(lambda x, a: net(x))
    swapping.first(batch, batch.images, batch.images.mean(1), net(batch.images).softmax(1))
    swapping.second(batch, batch.images)
    decisions = swapping.decisions()
    reliance, encoding = map_reliance(decisions), map_encoding(decisions)
    assert reliance.images == 6 and all(d.drop == 0 for d in reliance.replaced.values())
    assert encoding.probe_images == 3
    assert torch.equal(state, torch.cuda.get_rng_state())


def test_imputed_pixels_agree():
    x, removed = rand(4, 3, 32, 32), rand(4, 1, 32, 32, seed=1) < 0.8
    cpu, gpu = (impute_linear(x.to(d), removed.to(d)).cpu() for d in DEVICES)
    torch.testing.assert_close(cpu, gpu, rtol=0, atol=1e-3)


def test_gradcam_runs_on_the_device():
    pytest.importorskip("captum")
    x = rand(6, 3, 16, 16)
    cpu, gpu = (gradcam(small_net().to(d), x.to(d), "1").cpu() for d in DEVICES)
    torch.testing.assert_close(cpu, gpu, rtol=1e-3, atol=1e-4)
