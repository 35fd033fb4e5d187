"""A contact sheet: a few images of every class, each with its mask beside it if there is one."""

import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw
from torch import Tensor

from aib.data.imageset import ImageSet

GAP = 2
LABEL_WIDTH = 110
MAX_ROWS = 40  # of more classes, the sheet shows the first
MASK_COLOUR = torch.tensor([255, 40, 40], dtype=torch.uint8).view(3, 1, 1)


def contact_sheet(dataset: ImageSet, columns: int = 8) -> Image.Image:
    """One row per class with its name and its first images, at most `columns`."""
    columns = min(columns, int(dataset.labels.bincount().max()))
    side = dataset.preprocessing.image_size
    scale = max(64 // side, 1)
    with_masks = dataset.masks is not None or dataset.boxes is not None
    cell = side * scale * (2 if with_masks else 1) + GAP
    classes = dataset.labels.unique().tolist()[:MAX_ROWS]
    row_height = side * scale + GAP
    sheet = Image.new("RGB", (LABEL_WIDTH + columns * cell, len(classes) * row_height), "white")
    draw = ImageDraw.Draw(sheet)
    for row, label in enumerate(classes):
        draw.text((4, row * row_height + 4), _short(dataset.class_names[label]), fill="black")
        members = (dataset.labels == label).nonzero().flatten()[:columns].tolist()
        for column, index in enumerate(members):
            tile = _tile(dataset.pixels(index), dataset.mask(index) if with_masks else None)
            tile = tile.resize((tile.width * scale, tile.height * scale), Image.Resampling.NEAREST)
            sheet.paste(tile, (LABEL_WIDTH + column * cell, row * row_height))
    return sheet


def _tile(pixels: Tensor, mask: Tensor | None) -> Image.Image:
    """The image, and to its right the same image with everything outside the mask dimmed."""
    if mask is not None:
        dimmed = torch.where(mask, pixels, pixels // 3)  # [3,S,S]
        outside = (~mask)[None].float()  # [1,S,S]
        outline = mask & (F.max_pool2d(outside, 3, stride=1, padding=1)[0] > 0)
        pixels = torch.cat([pixels, torch.where(outline, MASK_COLOUR, dimmed)], dim=2)  # [3,S,2S]
    return Image.fromarray(pixels.permute(1, 2, 0).numpy())


def _short(name: str) -> str:
    return name if len(name) <= 17 else name[:16] + "…"
