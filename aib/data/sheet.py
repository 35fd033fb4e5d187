"""A contact sheet: a few images of every class, each with its mask beside it if there is one."""

import torch
from PIL import Image, ImageDraw

from aib.data.imageset import ImageSet
from aib.data.objects import object_and_counted
from aib.figures.fonts import text_font

COLUMNS = 8  # images per class
MAX_ROWS = 40  # of more classes, the sheet shows the first
GAP, LABEL_WIDTH, TILE = 2, 110, 64


def contact_sheet(dataset: ImageSet) -> Image.Image:
    """One row per class with its name and its first images."""
    classes = dataset.labels.unique().tolist()[:MAX_ROWS]
    width = TILE * (2 if dataset.has_objects else 1)
    size = LABEL_WIDTH + COLUMNS * (width + GAP), len(classes) * (TILE + GAP)
    sheet = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(sheet)
    for row, label in enumerate(classes):
        name, top = dataset.class_names[label], row * (TILE + GAP)
        draw.text((4, top + 4), name[:18], fill="black", font=text_font(10, name))
        members = (dataset.labels == label).nonzero().flatten()[:COLUMNS].tolist()
        for column, index in enumerate(members):
            tile = _tile(dataset, index).resize((width, TILE), Image.Resampling.BOX)
            sheet.paste(tile, (LABEL_WIDTH + column * (width + GAP), top))
    return sheet


def _tile(dataset: ImageSet, index: int) -> Image.Image:
    """The image, and to its right the same image, dark outside the object and grey if ignored."""
    pixels = dataset.pixels(index)
    if dataset.has_objects:
        inside, counted = object_and_counted(dataset.mask(index))
        marked = torch.where(inside, pixels, pixels // 3)
        marked = torch.where(counted, marked, 128)  # [3,S,S]
        pixels = torch.cat([pixels, marked], dim=2)  # [3,S,2S]
    return Image.fromarray(pixels.permute(1, 2, 0).numpy())
