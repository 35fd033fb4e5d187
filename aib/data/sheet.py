"""A contact sheet: a few images of every class, each with its mask beside it if there is one."""

import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw
from torch import Tensor

from aib.data.imageset import ImageSet
from aib.data.objects import object_and_counted
from aib.figures.fonts import text_font

GAP = 2
LABEL_WIDTH = 110
MAX_ROWS = 40  # of more classes, the sheet shows the first
MASK_COLOUR, IGNORED_COLOUR = torch.tensor([[255, 40, 40], [40, 80, 255]]).view(2, 3, 1, 1)
LARGEST = 128  # pixels per side of a tile; larger images are shrunk


def contact_sheet(dataset: ImageSet, columns: int = 8) -> Image.Image:
    """One row per class with its name and its first images, at most `columns`."""
    columns = min(columns, int(dataset.labels.bincount().max()))
    side = dataset.preprocessing.image_size
    tile_side = min(side * max(64 // side, 1), LARGEST)
    tile_width = tile_side * (2 if dataset.has_objects else 1)
    cell = tile_width + GAP
    classes = dataset.labels.unique().tolist()[:MAX_ROWS]
    row_height = tile_side + GAP
    method = Image.Resampling.NEAREST if tile_side >= side else Image.Resampling.BOX
    sheet = Image.new("RGB", (LABEL_WIDTH + columns * cell, len(classes) * row_height), "white")
    draw = ImageDraw.Draw(sheet)
    for row, label in enumerate(classes):
        name = dataset.class_names[label]
        font, short = text_font(10, name), name
        while font.getlength(short) > LABEL_WIDTH - 8:
            short = short.removesuffix("…")[:-1] + "…"
        draw.text((4, row * row_height + 4), short, fill="black", font=font)
        members = (dataset.labels == label).nonzero().flatten()[:columns].tolist()
        for column, index in enumerate(members):
            mask = dataset.known_object(index) if dataset.has_objects else None
            tile = _tile(dataset.pixels(index), mask).resize((tile_width, tile_side), method)
            sheet.paste(tile, (LABEL_WIDTH + column * cell, row * row_height))
    return sheet


def _tile(pixels: Tensor, mask: Tensor | None) -> Image.Image:
    """The image, and to its right the same image: dimmed outside the object, blue where ignored."""
    if mask is not None:
        inside, counted = object_and_counted(mask)
        outside = (~inside)[None].float()  # [1,S,S]
        outline = inside & (F.max_pool2d(outside, 3, stride=1, padding=1)[0] > 0)
        marked = torch.where(inside, pixels, pixels // 3)  # [3,S,S]
        marked = torch.where(outline, MASK_COLOUR, marked)
        marked = torch.where(counted, marked, (pixels + IGNORED_COLOUR) // 2)
        pixels = torch.cat([pixels, marked.to(torch.uint8)], dim=2)  # [3,S,2S]
    return Image.fromarray(pixels.permute(1, 2, 0).numpy())
