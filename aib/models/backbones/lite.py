"""EfficientNet-Lite for photographs: MBConv blocks without squeeze-and-excitation, ReLU6.

Parameter names are those of timm's `tf_efficientnet_lite*`, so its weights load as they are. The
weights come from TensorFlow, hence its "same" padding and BatchNorm constants.
"""

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from aib.config.options import ModelOptions
from aib.models.backbones.parts import MaskedDefaults, Parts, Stages
from aib.models.latent import mlp_decoder

EMBEDDING = 1280
STEM = 32  # channels; as those of the head they are not scaled
# (expansion, kernel, stride, blocks, channels) of each stage, at width and depth 1.
STAGES = (
    (1, 3, 1, 1, 16),
    (6, 3, 2, 2, 24),
    (6, 5, 2, 2, 40),  # stride 8 behind it
    (6, 3, 2, 3, 80),
    (6, 5, 1, 3, 112),  # stride 16
    (6, 5, 2, 4, 192),
    (6, 3, 1, 1, 320),  # stride 32
)
FINE, COPIED = 3, 5  # stages up to stride 8, up to stride 16
SCALES = {"lite0": (1.0, 1.0), "lite2": (1.1, 1.2)}  # width, depth


class SameConv2d(nn.Conv2d):
    """A convolution with TensorFlow's "same" padding: where it is odd, more at the end."""

    def forward(self, x: Tensor) -> Tensor:
        (k, _), (s, _) = self.kernel_size, self.stride
        total = [max((math.ceil(side / s) - 1) * s + k - side, 0) for side in x.shape[2:]]
        top, left = (pixels // 2 for pixels in total)
        if s > 1:
            x = F.pad(x, (left, total[1] - left, top, total[0] - top))
            return F.conv2d(x, self.weight, self.bias, self.stride, 0, 1, self.groups)
        return F.conv2d(x, self.weight, self.bias, 1, k // 2, 1, self.groups)


def relu6(x: Tensor) -> Tensor:
    """In place where there are no gradients: on a CPU half of its time is new memory."""
    return F.relu6(x, inplace=not torch.is_grad_enabled())


class Separable(nn.Module):
    """The block of the first stage: a depthwise convolution, then a 1 x 1 convolution."""

    folds = (("conv_dw", "bn1"), ("conv_pw", "bn2"))  # pairs for `fold_batch_norm`

    def __init__(self, c_in: int, c_out: int, kernel: int, stride: int):
        super().__init__()
        self.conv_dw, self.bn1 = conv(c_in, c_in, kernel, stride, groups=c_in), norm(c_in)
        self.conv_pw, self.bn2 = conv(c_in, c_out), norm(c_out)

    def forward(self, x: Tensor) -> Tensor:
        return self.bn2(self.conv_pw(relu6(self.bn1(self.conv_dw(x)))))


class MBConv(nn.Module):
    """1 x 1 to more channels, depthwise, 1 x 1 back; around it a shortcut where shapes agree."""

    folds = (("conv_pw", "bn1"), ("conv_dw", "bn2"), ("conv_pwl", "bn3"))

    def __init__(self, c_in: int, c_out: int, kernel: int, stride: int, expansion: int):
        super().__init__()
        c = c_in * expansion
        self.shortcut = stride == 1 and c_in == c_out
        self.conv_pw, self.bn1 = conv(c_in, c), norm(c)
        self.conv_dw, self.bn2 = conv(c, c, kernel, stride, groups=c), norm(c)
        self.conv_pwl, self.bn3 = conv(c, c_out), norm(c_out)

    def forward(self, x: Tensor) -> Tensor:
        f = relu6(self.bn1(self.conv_pw(x)))
        f = relu6(self.bn2(self.conv_dw(f)))
        f = self.bn3(self.conv_pwl(f))
        return x + f if self.shortcut else f


class LiteStages(nn.Module):
    """Images to features at strides 8 and 16: what a copied proposal reads."""

    folds: tuple[tuple[str, str], ...] = (("conv_stem", "bn1"),)

    def __init__(self, name: str, width: float = 1.0, count: int = COPIED):
        super().__init__()
        own_width, depth = SCALES[name]
        c_in = rounded(STEM * width)
        self.conv_stem, self.bn1 = conv(3, c_in, 3, 2), norm(c_in)
        stages = []
        for i, (expansion, kernel, stride, blocks, channels) in enumerate(STAGES[:count]):
            c_out, layers = rounded(channels * own_width * width), []
            scaled = 0 < i < len(STAGES) - 1  # the first and last stage keep their depth
            for j in range(math.ceil(blocks * depth) if scaled else blocks):
                shape = c_in, c_out, kernel, stride if j == 0 else 1
                layers.append(Separable(*shape) if expansion == 1 else MBConv(*shape, expansion))
                c_in = c_out
            stages.append(nn.Sequential(*layers))
        self.blocks = nn.Sequential(*stages)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        f = fine = relu6(self.bn1(self.conv_stem(x)))  # [B,32,h/2,w/2]
        for i, stage in enumerate(self.blocks):
            f = stage(f)
            if i + 1 == FINE:
                fine = f  # [B,c,h/8,w/8]
        return fine, f


class Lite(LiteStages):
    """Images [B,3,H,W] to embeddings [B,1280]."""

    folds = (*LiteStages.folds, ("conv_head", "bn2"))

    def __init__(self, name: str, width: float = 1.0):
        super().__init__(name, width, len(STAGES))
        last, embedding = (
            rounded(STAGES[-1][-1] * SCALES[name][0] * width),
            rounded(EMBEDDING * width),
        )
        self.conv_head, self.bn2 = conv(last, embedding), norm(embedding)

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        _, f = super().forward(x)  # [B,c,h/32,w/32]
        return relu6(self.bn2(self.conv_head(f))).mean((2, 3))


def lite(options: ModelOptions, name: str) -> Parts:
    """EfficientNet-Lite0 or -Lite2. Pixels are normalised to (x - 127) / 128."""
    width = SCALES[name][0] * options.width
    fine, coarse = (rounded(STAGES[i - 1][-1] * width) for i in (FINE, COPIED))
    embedding = rounded(EMBEDDING * options.width)
    return Parts(
        stem=Lite(name, options.width),
        tail=nn.Identity(),
        feature_channels=embedding,
        embedding_dim=embedding,
        attention_trunk=lambda num_classes: nn.Conv2d(embedding, 1, 1),  # no model has it
        decoder=mlp_decoder,
        latent_dim=256,
        num_anchors=20,
        min_size=32,
        masked=MaskedDefaults(
            halvings=4,
            propose="copy",
            layer=f"0.blocks.{COPIED - 1}",
            channels=coarse,
            bottleneck=False,
            noise_std=0.5,
            head_norm=False,
        ),
        stages=Stages(partial(LiteStages, name, options.width), (fine, coarse)),
        statistics=(127 / 255, 128 / 255),
    )


def conv(c_in: int, c_out: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> SameConv2d:
    """A convolution without bias: BatchNorm follows."""
    return SameConv2d(c_in, c_out, kernel, stride, groups=groups, bias=False)


def norm(channels: int) -> nn.BatchNorm2d:
    """BatchNorm with TensorFlow's constants."""
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


def rounded(channels: float) -> int:
    """The nearest multiple of 8 that is not more than a tenth below."""
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest if nearest >= 0.9 * channels else nearest + 8
