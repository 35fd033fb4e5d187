"""Stand-ins for networks of torchvision: their names and wiring, and small."""

import torch
import torch.nn.functional as F
from torch import nn


class Residual(nn.Module):
    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(c_out)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(c_out)
        self.downsample = nn.Conv2d(c_in, c_out, 1, stride, bias=False)

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(out)) + self.downsample(x))


class ResNet(nn.Module):
    """The names and the wiring of torchvision's."""

    def __init__(self, num_classes=7):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, 2, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = nn.Sequential(Residual(8, 8, 1), Residual(8, 8, 1))
        self.layer2 = nn.Sequential(Residual(8, 12, 2), Residual(12, 12, 1))
        self.layer3 = nn.Sequential(Residual(12, 16, 2))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(16, num_classes)

    def forward(self, x):
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class TwoNames(ResNet):
    """Its first layers have two names, as in networks that gather their layers in a list."""

    def __init__(self, num_classes=7):
        super().__init__(num_classes)
        self.stem = nn.Sequential(self.conv1, self.bn1, self.relu)


class DenseLayer(nn.Module):
    def __init__(self, c_in, growth):
        super().__init__()
        self.norm, self.conv = nn.BatchNorm2d(c_in), nn.Conv2d(c_in, growth, 3, 1, 1, bias=False)

    def forward(self, x):
        return torch.cat([x, self.conv(F.relu(self.norm(x)))], 1)


class DenseNet(nn.Module):
    """The names and the wiring of torchvision's: features, then everything functional."""

    def __init__(self, num_classes=7):
        super().__init__()
        self.features = nn.Sequential()
        self.features.add_module("conv0", nn.Conv2d(3, 8, 3, 2, 1, bias=False))
        block1 = nn.Sequential(DenseLayer(8, 4), DenseLayer(12, 4))
        self.features.add_module("denseblock1", block1)
        transition = nn.Sequential(nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 8, 1))
        transition.append(nn.AvgPool2d(2))
        self.features.add_module("transition1", transition)
        self.features.add_module("denseblock2", nn.Sequential(DenseLayer(8, 4), DenseLayer(12, 4)))
        self.features.add_module("norm5", nn.BatchNorm2d(16))
        self.classifier = nn.Linear(16, num_classes)

    def forward(self, x):
        f = F.relu(self.features(x), inplace=True)
        return self.classifier(torch.flatten(F.adaptive_avg_pool2d(f, 1), 1))


class Permute(nn.Module):
    def __init__(self, *order):
        super().__init__()
        self.order = order

    def forward(self, x):
        return x.permute(self.order)


class Swin(nn.Module):
    """The names and the wiring of torchvision's: channels last up to `permute`."""

    def __init__(self, channels=8):
        super().__init__()
        embed = nn.Sequential(nn.Conv2d(3, channels, 4, 4), Permute(0, 2, 3, 1))
        block = nn.Sequential(nn.LayerNorm(channels), nn.Linear(channels, channels), nn.GELU())
        self.features = nn.Sequential(embed, block)
        self.norm = nn.LayerNorm(channels)
        self.permute = Permute(0, 3, 1, 2)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(channels, 7)

    def forward(self, x):
        x = self.permute(self.norm(self.features(x)))
        return self.head(torch.flatten(self.avgpool(x), 1))


class EncoderBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.self_attention = nn.MultiheadAttention(channels, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(channels, 2 * channels), nn.GELU())
        self.mlp.append(nn.Linear(2 * channels, channels))

    def forward(self, x):
        y = self.ln_1(x)
        x = x + self.self_attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


class Tokens(nn.Module):
    """Patches after a class token and maybe registers; with `size` of that image size only."""

    def __init__(self, channels, prefix=1, size=None, patch=4):
        super().__init__()
        self.proj, self.size = nn.Conv2d(3, channels, patch, patch), size
        self.cls_token = nn.Parameter(torch.randn(1, prefix, channels))

    def forward(self, x):
        assert self.size in (None, x.shape[2]), f"Input height ({x.shape[2]}) doesn't match model"
        x = self.proj(x).flatten(2).transpose(1, 2)
        return torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1)


class ViT(nn.Module):
    """The names of timm's, with tokens [B,n+h*w,c]."""

    def __init__(self, num_classes=7, channels=8, **tokens):
        super().__init__()
        self.patch_embed = Tokens(channels, **tokens)
        self.blocks = nn.Sequential(EncoderBlock(channels), EncoderBlock(channels))
        self.norm = nn.LayerNorm(channels)
        self.head = nn.Linear(channels, num_classes) if num_classes else nn.Identity()

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.patch_embed(x)))[:, 0])
