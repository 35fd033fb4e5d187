"""What the page shows of an explanation: pictures, and text in Markdown."""

import re
from collections.abc import Sequence
from dataclasses import replace

import torch
from PIL import Image

from aib.figures.overlay import FLAT, Array
from aib.figures.picture import Panel, draw_panel, limits, magnified
from aib.interpret.verdict import StoredVerdict
from aib.models.explanation import Explanation, panels

TOP = 5  # classes
CHANGE_COLORS = "RdBu_r"  # white where nothing changed
Tile = tuple[Image.Image, str]  # a picture, and the text that stands for it


def details(explanation: Explanation) -> str:
    """How certain the decision is, and whose map it is."""
    lines = [f"⚠ **{warning.capitalize()}**"] if (warning := explanation.certainty()) else []
    lines.append(explanation.scope.capitalize())
    if explanation.kl_bits is not None:
        lines.append(f"KL of the latent {float(explanation.kl_bits):.1f} bits")
    if explanation.mask is not None:
        lines.append(f"The mask opens {float(explanation.mask.mean()):.0%} of the image")
    if explanation.method != "own":
        instead = "no map" if explanation.method is None else "the map of Grad-CAM"
        lines.append(f"The model has no attention: {instead}")
    return ". ".join(lines) + "."


def verdict(stored: StoredVerdict | None) -> str:
    """What the model's map is worth, where that was measured."""
    if stored is None:
        return ""
    sign = "⚠ " if stored.verdict.warning else ""
    return f"{sign}**Map: {stored.verdict.name}.** {escape(stored.text)}"


def maps(picture: Array, explanation: Explanation, opacity: float) -> list[Tile]:
    """The panels of `aib explain`, without the image."""
    if explanation.shown_map is None:
        return []
    large = magnified(picture)
    row = panels(replace(explanation, images=(large,)), opacity=opacity)[1:]
    return tiles(row, large.shape)


def tiles(row: Sequence[Panel], shape: Sequence[int] = (1, 1)) -> list[Tile]:
    """Panels as drawn by `aib explain`, with their titles as alternative texts."""
    return [(draw_panel(panel, shape), panel.title) for panel in row]


def change_text(before: Explanation, now: Explanation) -> str:
    """What the blocks do to the decision."""
    old, new = (escape(one.names()[0]) for one in (before, now))
    text = f"The decision stays {old}." if old == new else f"The decision changes: {old} to {new}."
    p_old, p_new = before.probabilities[0], now.probabilities[0]
    top = [*p_old.topk(min(3, len(p_old))).indices, *p_new.topk(min(3, len(p_new))).indices]
    rows = [
        f"| {escape(before.name_of(i))} | {float(p_old[i]):.1%} | {float(p_new[i]):.1%} |"
        for i in dict.fromkeys(map(int, top))
    ]
    table = ["| class | before | with the blocks |", "|---|---|---|", *rows]
    return "\n".join(["#### What the blocks change", text, "", *table])


def change_maps(before: Explanation, now: Explanation) -> list[Panel]:
    """The map before, with the blocks, and the difference; of a masked model the mask."""
    old, new = before.shown_map, now.shown_map
    if old is None or new is None:
        return []
    ends = limits(torch.cat([old, new]))
    most = max(float((new - old).abs().max()), FLAT)
    return [
        Panel("map before", old[0].numpy(), ends),
        Panel("map with the blocks", new[0].numpy(), ends),
        Panel("difference", (new - old)[0].numpy(), (-most, most), CHANGE_COLORS),
    ]


def escape(text: str) -> str:
    """Text of a file, such as a class name, as Markdown that shows it literally."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", " ".join(text.split()))
