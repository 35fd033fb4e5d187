"""A network of a user's own, for `attach`."""

from torch import nn


class SmallNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.ReLU())
        self.more = nn.Sequential(nn.Conv2d(4, 6, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.fc = nn.Linear(6, 10)

    def forward(self, x):
        return self.fc(self.more(self.features(x)).flatten(1))
