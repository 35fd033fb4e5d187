"""Add attention with an information bottleneck to your own CNN.

Run it with `python examples/plug_in.py`; it takes less than a minute on a CPU.
"""

import tempfile

import torch
from torch import Tensor, nn

import aib
from aib.data import ImageSet, load

EASY = "clutter=0,contrast=2,size=large"  # of the embedded data, to learn it in seconds


def layer(channels_in: int, channels_out: int) -> nn.Module:
    """Half the size in each direction."""
    convolution = nn.Conv2d(channels_in, channels_out, 3, stride=2, padding=1)
    return nn.Sequential(convolution, nn.BatchNorm2d(channels_out), nn.ReLU())


class MyNet(nn.Module):
    """Any classifier with a layer that returns [B,c,h,w] and a last Linear."""

    def __init__(self, num_classes: int = 10):
        super().__init__()
        self.early = nn.Sequential(layer(3, 16), layer(16, 32))
        self.late = nn.Sequential(layer(32, 64), layer(64, 64))
        self.fc = nn.Linear(64, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.late(self.early(x)).amax((2, 3)))


def attach_by_name(data: ImageSet) -> aib.Classifier:
    """A whole network: name the layer after which the attention is inserted."""
    torch.manual_seed(0)
    model = aib.attach(
        MyNet(), at="early", num_classes=10, quantizer=20, latent_dim=32, image_size=32
    )
    settings = aib.Settings(
        epochs=6,
        batch_size=32,
        optimizer="adamw",
        lr=5e-3,
        schedule="cosine",
        warmup=0.5,
        clip=2.0,
        beta=1e-3,
        beta_warmup=6,  # learn first: at full weight the KL of an untrained model dominates
    )
    return aib.fit(model, data, settings).model


def main() -> None:
    """Train, evaluate, explain, save and load again."""
    model = attach_by_name(load(f"shapes:count=1600,{EASY}", "train", holdout=0))
    test = load(f"shapes:count=400,{EASY}", "test")
    print(f"attached: test error {aib.evaluate(model, test).top1_error:.0f}%, by chance 90%")

    x = test.preprocessing.normalise(test.images[:4])
    expl = model.explain(x)
    print(f"predictions {expl.names()}, maps {tuple(expl.attention.shape)}")

    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again = aib.from_pretrained(folder, backbone=MyNet())
    same = torch.equal(again.explain(x).attention, model.explain(x).attention)
    print(f"saved and loaded: the same maps? {same}")


if __name__ == "__main__":
    main()
