"""TrivialAugment, "wide" (Müller and Hutter, 2021): one random operation on each image.

Operation, strength (one of 31) and sign are uniform. Whole batches of bytes on their device, with
the results of Pillow, of which the original is made.
"""

import math

import torch
from torch import Tensor

OPERATIONS = (
    "identity",
    "shear_x", "shear_y", "translate_x", "translate_y", "rotate",
    "brightness", "color", "contrast", "sharpness",
    "posterize", "solarize", "autocontrast", "equalize",
)  # fmt: skip
BLENDS = OPERATIONS[6:10]
CODE = {name: code for code, name in enumerate(OPERATIONS)}
BINS = 31
SHEAR, TRANSLATE, ROTATE, ENHANCE = 0.99, 32, 135, 0.99  # the largest strengths
COLUMNS = slice(7, 10)  # of EpochPlan.uniform: operation, strength, sign


class TrivialAugment:
    """Augments uint8 images [B,3,H,W] of one size on one device.

    There are three groups: operations that move pixels, that blend the image with another, and that
    replace each value by another. A group leaves images with an operation of another group as they
    are, so that a GPU computes all three for the whole batch without waiting for the choice.
    """

    def __init__(self, height: int, width: int, device: torch.device | str = "cpu"):
        bins = [i / (BINS - 1) for i in range(BINS)]
        signed = [*bins, *(-share for share in bins)]  # level = bin, or BINS + bin if negative
        affine = [[_affine(name, s, height, width) for s in signed] for name in OPERATIONS]
        self.affine = torch.tensor(affine, device=device)  # int64 [14,62,6]
        factor = [[1 + ENHANCE * s * (name in BLENDS) for s in signed] for name in OPERATIONS]
        self.factor = torch.tensor(factor, device=device)  # [14,62]
        tables = [[_table(name, i) for i in range(BINS)] for name in OPERATIONS]
        self.tables = torch.tensor(tables, dtype=torch.uint8, device=device)  # [14,31,256]
        self.rows = torch.arange(height, device=device)[:, None]
        self.columns = torch.arange(width, device=device)
        self.values = torch.arange(256, device=device)

    def __call__(self, images: Tensor, uniform: Tensor) -> Tensor:
        """uint8 [B,3,H,W] and an epoch's random numbers [B,10] to uint8 [B,3,H,W]."""
        u = uniform[:, COLUMNS]
        operation = (u[:, 0] * len(OPERATIONS)).long()  # [B]
        level = (u[:, 1] * BINS).long() + BINS * (u[:, 2] < 0.5).long()  # [B]
        for first, last, apply in (
            ("shear_x", "rotate", self.move),
            ("brightness", "sharpness", self.blend),
            ("posterize", "equalize", self.replace),
        ):
            if images.device.type != "cpu":
                images = apply(images, operation, level)
                continue
            chosen = (operation >= CODE[first]) & (operation <= CODE[last])
            if len(rows := chosen.nonzero()[:, 0]):
                changed = apply(images[rows], operation[rows], level[rows])
                images = images.index_copy(0, rows, changed)
        return images

    def move(self, images: Tensor, operation: Tensor, level: Tensor) -> Tensor:
        """Shear, translate, rotate: nearest neighbour, black outside of the image."""
        a = self.affine[operation, level].T[:, :, None, None]  # [6,B,1,1]
        column = (a[0] * self.columns + a[1] * self.rows + a[2]) >> 16  # [B,H,W]
        row = (a[3] * self.columns + a[4] * self.rows + a[5]) >> 16
        height, width = images.shape[2:]
        inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
        source = torch.where(inside, row * width + column, 0).flatten(1)[:, None]  # [B,1,HW]
        moved = images.flatten(2).gather(2, source.expand(-1, 3, -1))
        return moved.view_as(images) * inside[:, None]

    def blend(self, images: Tensor, operation: Tensor, level: Tensor) -> Tensor:
        """Brightness, colour, contrast, sharpness: other + factor (image - other).

        The other image is black, the grey image, its mean, or the smoothed image.
        """
        operation = operation[:, None, None, None]
        grey = _grey(images)  # [B,1,H,W]
        count = grey[0].numel()
        mean = (2 * grey.sum((1, 2, 3), keepdim=True) + count) // (2 * count)  # rounded
        other = torch.where(operation == CODE["color"], grey.float(), 0)
        other = torch.where(operation == CODE["contrast"], mean.float(), other)
        other = torch.where(operation == CODE["sharpness"], _smooth(images), other)
        factor = self.factor[operation.flatten(), level][:, None, None, None]
        return (other + factor * (images - other)).clamp(0, 255).to(torch.uint8)

    def replace(self, images: Tensor, operation: Tensor, level: Tensor) -> Tensor:
        """Posterize, solarize, autocontrast, equalize: a table of 256 values per channel."""
        operation, level = operation[:, None, None], level[:, None, None]
        pixels = images.flatten(2).long()  # [B,3,HW]
        table = self.tables[operation[:, 0], level[:, 0] % BINS].expand(-1, 3, -1)  # [B,3,256]
        table = torch.where(operation == CODE["autocontrast"], self.stretch(pixels), table)
        table = torch.where(operation == CODE["equalize"], self.equalize(pixels), table)
        return table.gather(2, pixels).view_as(images)

    def stretch(self, pixels: Tensor) -> Tensor:
        """Tables that map the darkest value of each channel to 0 and the brightest to 255."""
        low, high = pixels.aminmax(dim=2, keepdim=True)  # [B,3,1]
        # In Pillow's order and precision, since the result is truncated.
        precise = torch.float32 if pixels.device.type == "mps" else torch.float64
        scale = 255 / (high - low).clamp_min(1).to(precise)
        table = (self.values * scale + -low * scale).clamp(0, 255).to(torch.uint8)
        return torch.where(high > low, table, self.values.to(torch.uint8))

    def equalize(self, pixels: Tensor) -> Tensor:
        """Tables after which the values of each channel are about equally frequent."""
        count = pixels.new_zeros(*pixels.shape[:2], 256)
        count.scatter_add_(2, pixels, torch.ones_like(pixels))  # [B,3,256]
        brightest = count.gather(2, pixels.amax(2, keepdim=True))
        step = (pixels.shape[2] - brightest) // 255  # [B,3,1]
        below = count.cumsum(2) - count
        table = ((step // 2 + below) // step.clamp_min(1)).clamp_max(255)
        return torch.where(step > 0, table, self.values).to(torch.uint8)


def _affine(name: str, share: float, height: int, width: int) -> list[int]:
    """Where output pixel (x, y) comes from: (a x + b y + c, d x + e y + f), in units of 2^-16.

    Pillow computes positions in this unit, so the same pixels are picked.
    """
    a, b, c, d, e, f = 1.0, 0.0, 0.0, 0.0, 1.0, 0.0
    if name.startswith("shear"):
        b, d = (SHEAR * share * (name[-1] == axis) for axis in "xy")
    if name.startswith("translate"):
        c, f = (int(TRANSLATE * share) * float(name[-1] == axis) for axis in "xy")
    if name == "rotate":  # about the centre, against the clock
        angle = -math.radians(ROTATE * share % 360)
        a = e = round(math.cos(angle), 15)
        b, d = round(math.sin(angle), 15), round(-math.sin(angle), 15)
        x, y = width / 2, height / 2
        c, f = x - (a * x + b * y), y - (d * x + e * y)
    # The pixel's centre is at a half.
    values = (a, b, c + a * 0.5 + b * 0.5, d, e, f + d * 0.5 + e * 0.5)
    return [math.floor(value * 65536 + 0.5) for value in values]


def _table(name: str, level: int) -> list[int]:
    """The value for each of 256 values."""
    if name == "posterize":  # keep the highest 8 to 2 bits
        dropped = (1 << round(6 * level / (BINS - 1))) - 1
        return [value & ~dropped for value in range(256)]
    if name == "solarize":  # invert from a threshold of 255 to 0 on
        threshold = 255 - 255 * level / (BINS - 1)
        return [value if value < threshold else 255 - value for value in range(256)]
    return list(range(256))


def _grey(images: Tensor) -> Tensor:
    """The luminance of ITU-R 601, int32 [B,1,H,W]."""
    red, green, blue = images.int().split(1, dim=1)
    return (19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16


def _smooth(images: Tensor) -> Tensor:
    """The rounded mean over 3 x 3 pixels, the middle one with weight 5; the border is unchanged."""
    x = images.float()
    rows = x[:, :, :-2] + x[:, :, 1:-1] + x[:, :, 2:]  # [B,3,H-2,W]
    total = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:] + 4 * x[:, :, 1:-1, 1:-1]
    x[:, :, 1:-1, 1:-1] = (total / 13 + 0.5).floor()
    return x
