"""Score the maps of other methods, for any classifier.

    python examples/score_foreign_method.py

A plain CNN learns, in seconds, the colour of a block among grey ones. `aib.interpret.study`
compares two hand-written methods with maps that ignore the image.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from aib.data import Batches, ImageSet
from aib.interpret import Plan, centre_gaussian, modifications, study

MapFunction = Callable[[Tensor], Tensor]  # images x [B,3,H,W] to maps [B,h,w]


def draw_blocks(count: int, seed: int) -> ImageSet:
    """Noise, two grey blocks, and a coloured block that defines the class; its pixels are the object.

    Your own data have the same form: uint8 images [N,3,S,S], labels [N], objects [N,S,S].
    """
    rng = torch.Generator().manual_seed(seed)
    colors = torch.tensor([[200, 60, 60], [60, 180, 60], [70, 70, 210], [190, 180, 50]])
    images = torch.randint(60, 160, (count, 3, 32, 32), generator=rng, dtype=torch.uint8)
    objects = torch.zeros(count, 32, 32, dtype=torch.bool)
    labels = torch.arange(count) % len(colors)
    for i in range(count):
        for color in (torch.full((3,), 90), torch.full((3,), 160), colors[labels[i]]):
            top, left = torch.randint(0, 22, (2,), generator=rng).tolist()
            images[i, :, top : top + 10, left : left + 10] = color[:, None, None]
        objects[i, top : top + 10, left : left + 10] = True  # the last one lies on top
    return ImageSet.from_tensors(
        images, labels, objects=objects, class_names="red green blue yellow".split()
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


def main() -> None:
    torch.manual_seed(0)
    model = train_plain_cnn(draw_blocks(384, seed=0))
    test = draw_blocks(96, seed=1)
    maps: dict[str, MapFunction] = {
        "occlusion": occlusion_maps(model),
        "input gradient": gradient_maps(model),
        "centred blob": lambda x: centre_gaussian(len(x), x.shape[2:]),
        "constant": lambda x: torch.ones(len(x), 8, 8),
    }
    hidden = "color-8"  # one coloured block of 8 x 8 pixels, the same for all methods
    plan = Plan({hidden: modifications()[hidden]}, subset=32)  # images that all maps are made for
    found, _ = study(model, test, plan, maps=maps)

    print(f"a plain CNN, {found.accuracy:.0f}% right on {found.images} test images")
    print(f"{'maps':<21} {'AUROC':>6} {'deletion':>9} {'score>=0.9%':>11} {'flat':>5}")
    for name, where in found.localisation.items():
        line = (
            f"{name:<21} {where.auroc.value:>6.3f} {found.faithfulness[name].deletion.value:>9.3f}"
        )
        if still := found.map_stability.get(name, {}).get(hidden):
            line += f" {still.score[0.9].value:>11.1f} {still.flat:>5.0f}"
        print(line)
    print("Maps that ignore the image never change: the score alone says little.")


if __name__ == "__main__":
    main()
