"""Score the maps of other methods, for any classifier.

    python examples/score_foreign_method.py

A plain CNN learns, in seconds, the colour of a block among grey ones. Two hand-written methods
explain it and are compared with three kinds of maps that ignore the image.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from aib.data import Batches, ImageSet
from aib.interpret import (
    InterpretabilityScore,
    Localisation,
    centre_gaussian,
    deletion_insertion,
    occlude_color,
    random_map,
)

MapFunction = Callable[[Tensor], Tensor]  # images x [B,3,H,W] to maps [B,h,w]


def draw_blocks(count: int, seed: int) -> ImageSet:
    """Noise, two grey blocks, and a coloured block that defines the class; its pixels are the mask.

    Your own data have the same form: uint8 images [N,3,S,S], labels [N], masks [N,S,S].
    """
    rng = torch.Generator().manual_seed(seed)
    colors = torch.tensor([[200, 60, 60], [60, 180, 60], [70, 70, 210], [190, 180, 50]])
    images = torch.randint(60, 160, (count, 3, 32, 32), generator=rng, dtype=torch.uint8)
    masks = torch.zeros(count, 32, 32, dtype=torch.bool)
    labels = torch.arange(count) % len(colors)
    for i in range(count):
        for color in (torch.full((3,), 90), torch.full((3,), 160), colors[labels[i]]):
            top, left = torch.randint(0, 22, (2,), generator=rng).tolist()
            images[i, :, top : top + 10, left : left + 10] = color[:, None, None]
        masks[i, top : top + 10, left : left + 10] = True  # the last one lies on top
    return ImageSet.from_tensors(
        images, labels, masks=masks, class_names="red green blue yellow".split()
    )


def train_plain_cnn(data: ImageSet, epochs: int = 3) -> nn.Module:
    """Train a plain PyTorch network; only the data loader is from aib."""
    layers: list[nn.Module] = []
    for c_in, c_out in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(c_in, c_out, 3, 2, 1), nn.BatchNorm2d(c_out), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 4))
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    batches = Batches(data, 32, train=True)
    for epoch in range(epochs):
        for x, y in batches.epoch(epoch):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    return model.eval()


def occlusion_maps(model: nn.Module, patch: int = 8) -> MapFunction:
    """Occlusion: how far the predicted class's probability falls when a patch is greyed out."""

    @torch.no_grad()
    def maps(x: Tensor) -> Tensor:
        certain, predicted = model(x).softmax(-1).max(-1)
        rows = []
        for top in range(0, x.shape[2], patch):
            for left in range(0, x.shape[3], patch):
                covered = x.clone()
                covered[:, :, top : top + patch, left : left + patch] = 0
                now = model(covered).softmax(-1).gather(1, predicted[:, None])[:, 0]
                rows.append(certain - now)  # [B]
        side = x.shape[2] // patch
        return torch.stack(rows, dim=1).unflatten(1, (side, side))  # [B,h,w]

    return maps


def gradient_maps(model: nn.Module) -> MapFunction:
    """Absolute gradient of the predicted score; captum's `attribute(x, target)` works here too."""

    def maps(x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        best = model(x).max(-1).values.sum()
        return torch.autograd.grad(best, x)[0].abs().sum(1)  # [B,H,W]

    return maps


def score(name: str, model: nn.Module, maps: MapFunction, data: ImageSet) -> None:
    """Print one line: localisation, stability and deletion."""
    located, stable = Localisation(), InterpretabilityScore()  # torchmetrics Metrics
    deletion: list[Tensor] = []
    for index in torch.arange(len(data)).split(64):
        pixels = data.images[index]
        hidden = occlude_color(pixels, index, p=8)  # one coloured block, the same for all methods
        x, x_hidden = (data.preprocessing.normalise(p) for p in (pixels, hidden))
        before, after = maps(x), maps(x_hidden)
        with torch.no_grad():
            located.update(before, data.masks[index])
            stable.update(before, after, model(x).argmax(-1), model(x_hidden).argmax(-1))
        deletion.append(deletion_insertion(model, x, before, steps=8).deletion_area)
    where, still = located.compute(), stable.compute()
    print(
        f"{name:<16} {where['auroc']:>6.3f} {100 * where['pointing']:>9.1f} "
        f"{still['score_0.9']:>11.1f} {still['centred_mean']:>7.3f} {still['flat']:>5.0f} "
        f"{torch.cat(deletion).mean():>9.3f}"
    )


def main() -> None:
    torch.manual_seed(0)
    model = train_plain_cnn(draw_blocks(384, seed=0))
    test = draw_blocks(96, seed=1)
    with torch.no_grad():
        right = model(test.preprocessing.normalise(test.images)).argmax(-1) == test.labels
    print(f"a plain CNN, {100 * right.double().mean():.0f}% right on {len(test)} test images")
    print(f"{'maps':<16} {'AUROC':>6} {'pointing%':>9} {'score>=0.9%':>11} {'mean r':>7} ", end="")
    print(f"{'flat':>5} {'deletion':>9}")

    size = test.images.shape[2:]
    methods: dict[str, MapFunction] = {
        "occlusion": occlusion_maps(model),
        "input gradient": gradient_maps(model),
        "centre (control)": lambda x: centre_gaussian(len(x), size),
        "random (control)": lambda x: random_map(torch.arange(len(x)), size),
        "constant": lambda x: torch.ones(len(x), 8, 8),
    }
    for name, maps in methods.items():
        score(name, model, maps, test)
    print("Maps that ignore the image never change: the score alone says little.")


if __name__ == "__main__":
    main()
