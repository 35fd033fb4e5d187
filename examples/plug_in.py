"""Add attention with an information bottleneck to your own CNN, in two ways.

Run it with `python examples/plug_in.py`; it takes a few seconds on a CPU.
"""

import tempfile

import torch
from torch import Tensor, nn

import aib
from aib.data import ImageSet, load


class MyNet(nn.Module):
    """Any classifier with a layer that returns [B,c,h,w] and a last Linear."""

    def __init__(self, num_classes: int = 10):
        super().__init__()
        self.early = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU()
        )
        self.late = nn.Sequential(
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU()
        )
        self.fc = nn.Linear(32, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.late(self.early(x)).mean((2, 3)))


def attach_by_name(data: ImageSet) -> aib.Classifier:
    """A whole network: name the layer after which the attention is inserted."""
    model = aib.attach(MyNet(), at="early", num_classes=10, quantizer=20, image_size=32)
    settings = aib.Settings(epochs=2, batch_size=64, lr=0.05, beta_warmup=1)
    fitted = aib.fit(model, data, settings)
    print(f"attached: {fitted.steps} steps, training error {fitted.last['error']:.0f}%")
    return model


def compose_from_two_halves() -> aib.Classifier:
    """Two modules: features [B,c,h,w] before the attention, an embedding [B,d] after it."""
    net = MyNet()
    tail = nn.Sequential(net.late, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return aib.AIB(net.early, tail, num_classes=10, image_size=32, quantizer=20)


def main() -> None:
    """Train, explain, save and load again."""
    data = load("shapes:count=640", "train", holdout=0)
    model = attach_by_name(data)

    x = data.preprocessing.normalise(data.images[:4])
    expl = model.explain(x)
    print(f"predictions {expl.names()}, maps {tuple(expl.attention.shape)}")

    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again = aib.from_pretrained(folder, backbone=MyNet())
    same = torch.equal(again.explain(x).attention, model.explain(x).attention)
    print(f"saved and loaded: the same maps? {same}")

    composed = compose_from_two_halves()
    out = composed(x, samples=(2, 3))
    print(f"composed: logits {tuple(out.logits.shape)} from 2 x 3 samples")


if __name__ == "__main__":
    main()
