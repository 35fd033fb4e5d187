"""How well does a map alone tell the class? A small CNN that sees nothing but the map."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from aib.figures.overlay import FLAT
from aib.interpret.metrics.controls import centre_gaussian
from aib.interpret.metrics.seeded import Stream, random_words, uniform

IMAGES = 4000  # at most: half of them train the probe, the rest score it
SIDE = 16  # larger maps are averaged down to this: what encodes the class shows there, too
EPOCHS, STEPS, BATCH, RATE = 20, 300, 64, 3e-3  # so many epochs, but at most so many steps
JITTER = 0.125  # of the side: how far the control's Gaussian moves at most


def probe(
    maps: Tensor, labels: Tensor, index: Tensor, num_classes: int, *, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Train on a random half of the maps [N,h,w]; return what it says of the rest, and the truth.

    Both are classes [n] on the CPU. The halves depend on the images' `index` and the seed alone.
    The global random numbers are left as they were.
    """
    order = random_words(seed, Stream.PROBE, index.cpu(), 1)[:, 0].argsort(stable=True)[:IMAGES]
    train, rest = (half.to(maps.device) for half in order.tensor_split([(len(order) + 1) // 2]))
    size = (min(maps.shape[1], SIDE), min(maps.shape[2], SIDE))
    x = F.adaptive_avg_pool2d(maps.detach().float()[:, None], size)  # [N,1,h,w]
    # What all maps share tells nothing; a faint difference from it may tell the class.
    x = x - x[train].mean(0)
    x = x / x[train].std().nan_to_num().clamp_min(FLAT)
    y = labels.to(maps.device)
    cuda = [maps.device] if maps.device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda), torch.enable_grad():
        torch.manual_seed(seed)
        net = small_cnn(size, num_classes).to(maps.device)
        _train(net, x[train], y[train])
    with torch.no_grad():
        said = net.eval()(x[rest]).argmax(1)
    return said.cpu(), y[rest].cpu()


def small_cnn(size: tuple[int, int], num_classes: int) -> nn.Module:
    """Two convolutions and a linear layer that keeps the positions."""
    cells = math.ceil(size[0] / 4) * math.ceil(size[1] / 4)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Linear(32 * cells, num_classes),
    )


def _train(net: nn.Module, x: Tensor, y: Tensor) -> None:
    steps = min(math.ceil(EPOCHS * len(x) / BATCH), STEPS)
    optimiser = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1 - step / steps)
    for pick in torch.randint(len(x), (steps, BATCH)).to(x.device):
        loss = F.cross_entropy(net(x[pick]), y[pick])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()


def jittered_gaussian(index: Tensor, size: tuple[int, int], *, seed: int = 0) -> Tensor:
    """A centred Gaussian moved a little at random, one per image [B,h,w]: it knows no class."""
    far = [math.ceil(JITTER * side) for side in size]
    wide = (size[0] + 2 * far[0], size[1] + 2 * far[1])
    shift = uniform(seed, Stream.PROBE, index, 3)[:, 1:]  # [B,2]; the first number splits
    rows, columns = (
        (shift[:, axis] * (2 * far[axis] + 1)).long()[:, None]
        + torch.arange(size[axis], device=index.device)
        for axis in (0, 1)
    )  # [B,h], [B,w]
    [gaussian] = centre_gaussian(1, wide, device=index.device)
    return gaussian[rows[:, :, None], columns[:, None, :]]
