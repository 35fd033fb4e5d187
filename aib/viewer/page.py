"""The page: its layout in Gradio's components, and the handlers of its events."""

import sys
from html import escape as escape_html
from pathlib import Path
from typing import Any

import gradio as gr
from PIL import Image, ImageOps

from aib.data.decode import open_rgb
from aib.errors import AibError, first_line
from aib.figures.overlay import Array, overlay
from aib.figures.picture import magnified
from aib.viewer import panels
from aib.viewer.scene import SHOWN_SIDE, Example, Scene, Viewer

OPACITY = 55  # percent
BLOCK = 25  # percent of the picture's shorter side: 8 of 32 pixels, a size the paper uses
THUMBNAIL = (160, 160)  # pixels of an example, at most
MAX_PIXELS = 40_000_000  # of an uploaded image
PARTS = ("decision", "details", "maps", "change", "change-maps")
# Galleries as high as their pictures. A caption is the text that stands for its picture, and is not
# shown.
CSS = """
#aib-picture img { image-rendering: pixelated; cursor: crosshair; }
.gradio-container .aib-tiles .caption-label { display: none; }
.gradio-container .aib-tiles .grid-wrap { min-height: 0; max-height: none; overflow: visible; }
.gradio-container .aib-tiles .grid-container { grid-auto-rows: auto; align-items: start;
  grid-template: none / repeat(var(--grid-cols), minmax(0, 1fr)); }
.gradio-container .aib-tiles .thumbnail-item { aspect-ratio: auto; height: auto; }
.gradio-container .aib-tiles img { max-height: 40rem; object-fit: contain; }
"""


class Page(gr.Blocks):
    """Gradio's page, restricted to files that were uploaded to it.

    Gradio copies or downloads every file that a request names, also as the value of a slider. Its
    own check accepts URLs and all files of its cache, the examples' pictures among them.
    """

    async def preprocess_data(
        self, block_fn: Any, inputs: list[Any], state: Any, explicit_call: bool = False
    ) -> list[Any]:
        """Check the values of a request before they are used."""
        if not named_files(inputs) <= self.upload_file_set:
            raise AibError("the page takes uploaded files only")
        return await super().preprocess_data(block_fn, inputs, state, explicit_call)

    async def process_api(self, *args: Any, **options: Any) -> dict[str, Any]:
        """Answer an event; an error becomes a message on the page, and no traceback here."""
        try:
            return await super().process_api(*args, **options)
        except AibError as error:
            raise gr.Error(escape_html(str(error)), print_exception=False) from error
        except Exception as error:  # a request that no page of ours makes
            reason = f"{type(error).__name__} {first_line(error)!a}"
            print(f"aib view: a request failed: {reason}", file=sys.stderr)
            raise gr.Error("this request failed", print_exception=False) from error


def named_files(value: Any) -> set[str]:
    """Every "path" in the JSON of a request."""
    if isinstance(value, list):
        return set().union(*map(named_files, value))
    if not isinstance(value, dict):
        return set()
    own = {str(value["path"])} if "path" in value else set()
    return own.union(*map(named_files, value.values()))


def build_page(viewer: Viewer, examples: list[Example]) -> Page:
    """Lay out the page and connect its events."""
    scenes = [viewer.show(*example) for example in examples]
    with Page(title="aib view", analytics_enabled=False, delete_cache=(600, 3600)) as page:
        scene = gr.State()
        with gr.Row(equal_height=False):
            with gr.Column(scale=1, min_width=300):
                file, gallery, picture, side, clear = _inputs(viewer, scenes)
            with gr.Column(scale=2, min_width=320):
                opacity, parts = _outputs(viewer)
        act = Handlers(viewer, scenes)
        everything = [scene, picture, *parts]
        # Nothing here is an API. Every event is answered, one after another, so that each starts
        # from the picture that the one before left; a slider that is dragged sends its last value.
        quiet: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
        quiet |= {"concurrency_id": "picture", "trigger_mode": "multiple"}
        last = quiet | {"trigger_mode": "always_last"}
        if scenes:
            page.load(act.start, opacity, everything, **quiet)
        file.upload(act.upload, [file, opacity], [file, *everything], **quiet)
        gallery.select(act.pick, opacity, everything, **quiet)
        picture.select(act.hide, [scene, side, opacity], everything, **quiet)
        clear.click(act.clear, [scene, opacity], everything, **quiet)
        opacity.input(act.redraw, [scene, opacity], parts[PARTS.index("maps")], **last)
    return page


def _inputs(viewer: Viewer, scenes: list[Scene]) -> tuple[Any, ...]:
    """Where a picture comes from, the picture, and what hides parts of it."""
    file = gr.File(label="Image file", show_label=False, height=120, elem_id="aib-file")
    if scenes:
        _markdown("or pick an example:")
    thumbnails = [(thumbnail(viewer.picture(scene), scene), scene.name) for scene in scenes]
    gallery = _gallery(3, value=thumbnails, visible=bool(scenes), elem_id="aib-examples")
    if origins := dict.fromkeys(scene.name.rpartition(": ")[0] for scene in scenes):
        with gr.Accordion("Sources of the examples", open=False):
            _markdown("\n".join(f"- {panels.escape(origin)}" for origin in origins))
    picture = gr.Image(
        format="png",
        interactive=False,
        buttons=[],
        height=360,
        alt_text="the picture; a click hides a block of it",
        elem_id="aib-picture",
    )
    _markdown("Click into the picture to hide a block of it.")
    side = gr.Slider(5, 60, BLOCK, label="Size of a block, % of the shorter side", step=5)
    return file, gallery, picture, side, gr.Button("Clear blocks", elem_id="aib-clear")


def thumbnail(picture: Array, scene: Scene) -> Image.Image:
    """A small picture of an example, with its map."""
    small = ImageOps.contain(Image.fromarray(picture), THUMBNAIL)
    explanation = scene.now
    if explanation.shown_map is None:
        return small
    masked = explanation.mask is not None
    alpha = OPACITY / 100
    drawn = overlay(small, explanation.shown_map[0], alpha=alpha, scale=not masked)
    return Image.fromarray(drawn)


def _outputs(viewer: Viewer) -> tuple[gr.Slider, list[gr.components.Component]]:
    """The opacity of the map, and what the model makes of the picture, in the order of PARTS."""
    _markdown(f"### {panels.escape(viewer.title)}")
    verdict = viewer.verdict
    _markdown(panels.verdict(verdict), visible=verdict is not None, elem_id="aib-verdict")
    opacity = gr.Slider(0, 100, OPACITY, label="Opacity of the map, %", elem_id="aib-opacity")
    parts = [
        gr.Label(label="decision", num_top_classes=panels.TOP, show_heading=False),
        _markdown(),
        _gallery(3),
        _markdown(),
        _gallery(3),
    ]
    for name, part in zip(PARTS, parts, strict=True):
        part.elem_id = f"aib-{name}"
    return opacity, parts


def _markdown(text: str = "", **options: Any) -> gr.Markdown:
    return gr.Markdown(text, latex_delimiters=[], **options)


def _gallery(columns: int, **options: Any) -> gr.Gallery:
    return gr.Gallery(
        columns=columns,
        fit_columns=False,
        format="png",
        height="auto",
        interactive=False,
        show_label=False,
        buttons=[],
        allow_preview=False,
        elem_classes="aib-tiles",
        **options,
    )


class Handlers:
    """Values for the page's components after each event, in the order of `everything`."""

    def __init__(self, viewer: Viewer, examples: list[Scene]) -> None:
        self.viewer, self.examples = viewer, examples

    def start(self, opacity: int) -> list[Any]:
        return self._draw(self.examples[0], opacity)

    def pick(self, opacity: int, chosen: gr.SelectData) -> list[Any]:
        return self._draw(self.examples[chosen.index], opacity)

    def upload(self, path: str, opacity: int) -> list[Any]:
        """Show an uploaded file. The first value empties the upload box."""
        try:
            image = open_rgb(Path(path), max_pixels=MAX_PIXELS)
        except AibError as error:  # the picture before it stays
            gr.Warning(escape_html(str(error)), duration=None)
            return [None, *[gr.skip()] * (2 + len(PARTS))]
        return [None, *self._draw(self.viewer.show(image, Path(path).name), opacity)]

    def hide(
        self, scene: Scene | None, side: int, opacity: int, clicked: gr.SelectData
    ) -> list[Any]:
        """Hide a block where the picture was clicked on."""
        scene = present(scene)
        height, width = magnified(self.viewer.picture(scene), SHOWN_SIDE).shape[:2]
        x, y = clicked.index
        covered = self.viewer.cover(scene, (x + 0.5) / width, (y + 0.5) / height, side / 100)
        return self._draw(covered, opacity)

    def clear(self, scene: Scene | None, opacity: int) -> list[Any]:
        return self._draw(self.viewer.uncover(present(scene)), opacity)

    def redraw(self, scene: Scene | None, opacity: int) -> dict[str, Any]:
        """Draw the maps again; no model runs."""
        scene = present(scene)
        return _tiles(panels.maps(self.viewer.picture(scene), scene.now, opacity / 100))

    def _draw(self, scene: Scene, opacity: int) -> list[Any]:
        before, now = scene.before, scene.now
        picture = magnified(self.viewer.picture(scene), SHOWN_SIDE)
        return [
            scene,
            gr.update(value=picture, label=scene.name),
            dict(now.top(0, panels.TOP)),
            panels.details(now),
            self.redraw(scene, opacity),
            panels.change_text(before, now) if scene.blocks else "",
            _tiles(panels.tiles(panels.change_maps(before, now)) if scene.blocks else []),
        ]


def _tiles(tiles: list[panels.Tile]) -> dict[str, Any]:
    return gr.update(value=tiles, visible=bool(tiles))


def present(scene: Scene | None) -> Scene:
    """The visitor's picture, unless there is none yet or the server has dropped it."""
    if scene is None:
        raise AibError("the viewer has no picture of this page: choose one, or reload the page")
    return scene
