"""The parts of the page that show what a run says of the picture, as HTML."""

from collections.abc import Sequence
from html import escape as escape_html

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from aib.errors import install
from aib.figures.embed import picture_uri
from aib.figures.overlay import overlay
from aib.figures.picture import MAP_COLORS, SIGMA_COLORS, Array, image_tile
from aib.interpret.metrics.similarity import FLAT, centred_cosine, cosine, min_max
from aib.viewer.analysis import Analysis
from aib.viewer.scene import Scene, Viewer

TOP = 5
SHOWN_SAMPLES = 8
MAP_SIDE = 192  # pixels of a map's picture: smooth at the size that the page gives it
CHANGE_COLORS = "RdBu_r"  # white where nothing changed
SHOWN_TILE = 320  # pixels of the picture below a map


def decision(viewer: Viewer, scene: Scene, run: int, _shown: int) -> str:
    """The likeliest classes, and how sure the model is."""
    found = scene.now[run]
    rows = "".join(_bar(found, i) for i in found.top(TOP))
    most = torch.tensor(float(len(found.names))).log2()
    text = f"Entropy {found.entropy:.2f} of {most:.2f} bits"
    if found.disagreement is not None:
        text += f", {found.disagreement:.2f} of them because the samples disagree"
    if found.kl is not None:
        text += f". KL of the latent {found.kl:.1f} bits"
    noise = f"mean of {found.drawn} samples" if found.spread is not None else found.drawn
    return f'<div class="aib-bars">{rows}</div><p class="aib-soft">{text} ({noise}).</p>'


def attention(viewer: Viewer, scene: Scene, run: int, _shown: int) -> str:
    """The map over the picture. The page's opacity lives in the style sheet: no server needed."""
    found = scene.now[run]
    if found.map is None:
        return _said(
            "map",
            "This model has no attention of its own. With captum "
            f"({install('posthoc')}) the page shows Grad-CAM instead.",
        )
    limits = _limits(found.map)
    tile = _image(_colours(found.map, limits, MAP_COLORS), "the map")
    what = "attention" if found.method == "own" else "Grad-CAM (made after the fact)"
    flat = "; flat: it highlights nothing" if limits[1] - limits[0] < FLAT else ""
    return _figure(
        f'<div class="aib-stack">{_base(viewer, scene, run)}'
        f'<div class="aib-over">{tile}</div></div>',
        f"{what}, over the picture{flat}",
        _scale(limits, MAP_COLORS),
    )


def levels(viewer: Viewer, scene: Scene, run: int, shown: int) -> str:
    """The `shown` highest of the quantised levels that occur in the map, over the grey picture."""
    found = scene.now[run]
    if found.levels is None or found.anchors is None:
        return _said("levels", "This model does not quantise its map: there are no levels.")
    used, count = found.used_levels, len(found.anchors)
    kept = used[:shown]
    layer = _image(level_layer(found.levels, kept, count), "the quantised levels")
    share = float(torch.isin(found.levels, torch.tensor(kept)).float().mean()) if kept else 0.0
    caption = f"{len(used)} of {count} levels used; the {len(kept)} highest, {share:.0%} of the map"
    return _figure(
        f'<div class="aib-stack aib-grey">{_base(viewer, scene, run)}'
        f'<div class="aib-pixels">{layer}</div></div>',
        caption,
        _swatches(found, kept),
    )


def uncertainty(viewer: Viewer, scene: Scene, run: int, _shown: int) -> str:
    """sigma of the attention."""
    found = scene.now[run]
    if found.sigma is None:
        return _said("uncertainty", "This model's map is not random: it has no uncertainty.")
    limits = _limits(found.sigma)
    tile = _image(_colours(found.sigma, limits, SIGMA_COLORS), "uncertainty of the map")
    return _figure(
        f'<div class="aib-stack">{tile}</div>',
        "uncertainty of the map, σ",
        _scale(limits, SIGMA_COLORS),
    )


def samples(viewer: Viewer, scene: Scene, run: int, _shown: int) -> str:
    """What the model saw of the picture, and several draws of a on the scale of the map."""
    found = scene.now[run]
    pixels = viewer.pixels(scene)[run]
    side = pixels.shape[-1]
    seen = _image(image_tile(pixels), "the picture as the model sees it")
    tiles = [f'<figure class="aib-pixels">{seen}<figcaption>input, {side} x {side}</figcaption>']
    if found.samples is None:
        note = "This model's map is not random: there are no samples of it."
    else:
        assert found.map is not None
        note = "Samples of the attention, as the features met them."
        limits = _limits(torch.cat([found.samples, found.map[None]]))
        for number, drawn in enumerate(found.samples[:SHOWN_SAMPLES], 1):
            tile = _image(_colours(drawn, limits, MAP_COLORS), f"sample {number} of the map")
            tiles.append(f"<figure>{tile}<figcaption>sample {number}</figcaption>")
    row = "".join(f"{tile}</figure>" for tile in tiles)
    return f'<div class="aib-row">{row}</div><p class="aib-soft">{note}</p>'


def change(viewer: Viewer, scene: Scene, run: int, _shown: int) -> str:
    """What the blocks did to the decision and to the map; nothing without blocks."""
    if not scene.blocks:
        return ""
    before, now = scene.before[run], scene.now[run]
    parts = [f'<p class="aib-verdict">{change_text(before, now)}</p>', _change_table(before, now)]
    if before.map is not None and now.map is not None:
        limits = _limits(torch.stack([before.map, now.map]))
        moved = now.map - before.map
        most = max(float(moved.abs().max()), FLAT)
        tiles = (
            (_colours(before.map, limits, MAP_COLORS), "map before"),
            (_colours(now.map, limits, MAP_COLORS), "map with the blocks"),
            (_colours(moved, (-most, most), CHANGE_COLORS), f"difference, ±{most:.2g}"),
        )
        drawn = "".join(
            f"<figure>{_image(tile, text)}<figcaption>{text}</figcaption></figure>"
            for tile, text in tiles
        )
        parts.append(f'<div class="aib-row aib-three">{drawn}</div>')
    return f'<section class="aib-change"><h4>What the blocks change</h4>{"".join(parts)}</section>'


# In the order of the page. Only `levels` looks at the number of levels shown.
PANELS = (decision, attention, levels, uncertainty, samples, change)


def change_text(before: Analysis, now: Analysis) -> str:
    """Two sentences: the decision, and the map."""
    old, new = before.prediction, now.prediction
    chances = (float(before.probabilities[old]), float(now.probabilities[old]))
    shares = f"{chances[0]:.1%} to {chances[1]:.1%}"
    if old == new:
        text = f"The decision stays {_words(before.names[old])}: {shares}."
    else:
        text = (
            f"The decision changes from {_words(before.names[old])} ({shares}) to "
            f"{_words(now.names[new])} ({float(now.probabilities[new]):.1%})."
        )
    if before.map is None or now.map is None:
        return text
    maps = min_max(before.map[None]), min_max(now.map[None])
    text += f" The maps' cosine is {float(cosine(*maps)):.2f}"
    centred = float(centred_cosine(*maps))
    return text + (f", centred {centred:.2f}." if centred == centred else " (one of them is flat).")


def level_layer(levels: Tensor, kept: Sequence[int], count: int) -> Array:
    """Levels [h,w] as colours uint8 [h,w,4], clear where a level is not kept."""
    from matplotlib import colormaps

    colours = colormaps[MAP_COLORS](levels.numpy() / max(count - 1, 1), bytes=True)  # [h,w,4]
    hidden = ~torch.isin(levels, torch.tensor(list(kept), dtype=levels.dtype)).numpy()
    colours[hidden] = 0
    layer: Array = colours
    return layer


def message(text: str, bad: bool = False) -> str:
    """A sentence to the visitor."""
    kind, role = ("aib-bad", "alert") if bad else ("aib-soft", "status")
    return f'<p class="{kind}" role="{role}">{_words(text)}</p>'


def heading(viewer: Viewer, run: int) -> str:
    """Which model a column is about."""
    opened = viewer.runs[run]
    return f'<h3 class="aib-run">{_words(opened.label)} <small>{_words(opened.name)}</small></h3>'


def _words(text: str) -> str:
    # Gradio takes {{ }} and ${ } for places to fill in.
    return escape_html(text).replace("{", "&#123;").replace("}", "&#125;")


def _bar(found: Analysis, index: int) -> str:
    p = float(found.probabilities[index])
    spread = "" if found.spread is None else f" ± {100 * float(found.spread[index]):.1f}"
    return (
        f'<div class="aib-bar"><span>{_words(found.names[index])}</span>'
        f'<span class="aib-track"><i style="width:{100 * p:.1f}%"></i></span>'
        f"<span>{100 * p:.1f}%<small>{spread}</small></span></div>"
    )


def _change_table(before: Analysis, now: Analysis) -> str:
    classes = list(dict.fromkeys([*before.top(3), *now.top(3)]))
    rows = "".join(
        f"<tr><td>{_words(before.names[i])}</td><td>{float(before.probabilities[i]):.1%}</td>"
        f"<td>{float(now.probabilities[i]):.1%}</td></tr>"
        for i in classes
    )
    head = "<tr><th>class</th><th>before</th><th>with the blocks</th></tr>"
    return f'<table class="aib-table"><thead>{head}</thead><tbody>{rows}</tbody></table>'


def _base(viewer: Viewer, scene: Scene, run: int) -> str:
    """The picture that a map is laid over, cut as the model sees it."""
    shown = Image.fromarray(viewer.shown(scene, run))
    kind = ' class="aib-pixels"' if max(shown.size) <= 64 else ""
    shown.thumbnail((SHOWN_TILE, SHOWN_TILE))
    return f"<div{kind}>{_image(np.asarray(shown), 'the picture')}</div>"


def _image(pixels: Array, alt: str) -> str:
    return f'<img src="{picture_uri(pixels, quick=True)}" alt="{escape_html(alt)}">'


def _colours(map: Tensor, limits: tuple[float, float], colormap: str) -> Array:
    """A map's colours between two values, uint8 [H,W,3]."""
    low, high = limits
    blank = np.zeros((MAP_SIDE, MAP_SIDE, 3), np.uint8)
    values = (map - low) / max(high - low, FLAT)
    return overlay(blank, values, colormap, alpha=1.0, scale=False)


def _limits(map: Tensor) -> tuple[float, float]:
    low, high = map.aminmax()
    return float(low), float(high)


def _scale(limits: tuple[float, float], colormap: str) -> str:
    """The colours with the values at their ends."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    stops = ",".join(to_hex(colormaps[colormap](i / 8)) for i in range(9))
    low, high = limits
    return (
        f'<div class="aib-scale"><span>{low:.3g}</span>'
        f'<i style="background:linear-gradient(90deg,{stops})"></i><span>{high:.3g}</span></div>'
    )


def _swatches(found: Analysis, kept: Sequence[int]) -> str:
    """One square for each level in use, the highest first; those not shown are pale."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    assert found.levels is not None and found.anchors is not None
    squares = []
    for level in found.used_levels:
        colour = to_hex(colormaps[MAP_COLORS](level / max(len(found.anchors) - 1, 1)))
        share = float((found.levels == level).float().mean())
        title = f"value {float(found.anchors[level]):.3f}, {share:.1%} of the map"
        off = "" if level in kept else ' class="aib-off"'
        squares.append(f'<i{off} style="background:{colour}" title="{title}"></i>')
    return f'<div class="aib-swatches">{"".join(squares)}</div>'


def _figure(picture: str, caption: str, legend: str = "") -> str:
    return (
        f'<figure class="aib-figure">{picture}{legend}<figcaption>{caption}</figcaption></figure>'
    )


def _said(what: str, sentence: str) -> str:
    return _figure(f'<div class="aib-empty">{_words(sentence)}</div>', what)
