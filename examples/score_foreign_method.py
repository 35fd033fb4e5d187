"""Score the maps of other methods, for any classifier: `python examples/score_foreign_method.py`.

A plain CNN learns the colour of a block among grey ones. `aib.interpret.study` compares two
hand-written methods with maps that ignore the image.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from aib.data import Batches, ImageSet
from aib.interpret import Plan, centre_gaussian, study


def draw_blocks(count: int, seed: int) -> ImageSet:
    """Noise, two grey blocks, and a coloured block, the object, that defines the class.

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
    names = "red green blue yellow".split()
    return ImageSet.from_tensors(images, labels, objects=objects, class_names=names)


def train_plain_cnn(data: ImageSet) -> nn.Module:
    """Train a plain PyTorch network; only the data loader is from aib."""
    layers: list[nn.Module] = []
    for c_in, c_out in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(c_in, c_out, 3, 2, 1), nn.BatchNorm2d(c_out), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 4))
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    batches = Batches(data, 32, train=True)
    for epoch in range(3):
        for x, y in batches.epoch(epoch):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    return model.eval()


def main() -> None:
    """Compare four kinds of map on one network."""
    torch.manual_seed(0)
    model = train_plain_cnn(draw_blocks(384, seed=0))

    @torch.no_grad()
    def occlusion(x: Tensor) -> Tensor:
        """How far the predicted class's probability falls when a patch is greyed out."""
        certain, predicted = model(x).softmax(-1).max(-1)
        drops = []
        for top in range(0, 32, 8):
            for left in range(0, 32, 8):
                covered = x.clone()
                covered[:, :, top : top + 8, left : left + 8] = 0
                now = model(covered).softmax(-1).gather(1, predicted[:, None])[:, 0]
                drops.append(certain - now)  # [B]
        return torch.stack(drops, dim=1).unflatten(1, (4, 4))  # [B,h,w]

    def gradient(x: Tensor) -> Tensor:
        """Absolute gradient of the predicted score; captum's `attribute` works here too."""
        x = x.detach().requires_grad_()
        return torch.autograd.grad(model(x).max(-1).values.sum(), x)[0].abs().sum(1)

    maps = {
        "occlusion": occlusion,
        "input gradient": gradient,
        "centred blob": lambda x: centre_gaussian(len(x), x.shape[2:]),
        "constant": lambda x: torch.ones(len(x), 8, 8),
    }
    found = study(model, draw_blocks(96, seed=1), Plan({}, subset=32), maps=maps)

    print(f"a plain CNN, {found.accuracy:.0f}% right on {found.images} test images")
    print(f"{'maps':<21} {'AUROC':>6} {'deletion':>9} {'insertion':>9}")
    for name, where in found.localisation.items():
        curves = found.faithfulness[name]
        deletion, insertion = curves.deletion.value, curves.insertion.value
        print(f"{name:<21} {where.auroc.value:>6.3f} {deletion:>9.3f} {insertion:>9.3f}")


if __name__ == "__main__":
    main()
