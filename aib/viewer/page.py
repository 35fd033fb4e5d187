"""The page's layout, and what happens on a click. It needs Gradio."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import gradio as gr
import numpy as np

from aib.errors import AibError
from aib.figures.picture import Array
from aib.viewer.examples import Example, strangers
from aib.viewer.panels import PANELS, heading, levels, message
from aib.viewer.scene import SHOWN_SIDE, Block, Scene, Viewer

OPACITY = 55  # percent; the style sheet starts with the same
SET_OPACITY = "v => { document.documentElement.style.setProperty('--aib-opacity', v / 100); }"
BLOCK = 25  # percent of the picture's shorter side: 8 of 32 pixels, a size the paper uses
TILE = 96  # pixels of an example's longer side in the gallery
SESSIONS = 50  # kept on the server; a page that was never closed makes room for a newer one


@dataclass(frozen=True)
class Controls:
    """What a visitor touches, and the two things that answer in words and in pixels."""

    file: gr.File
    gallery: gr.Gallery
    status: gr.HTML
    picture: gr.Image
    side: gr.Slider
    clear: gr.Button
    opacity: gr.Slider
    shown: gr.Slider


class Page(gr.Blocks):
    """Gradio's page, except that it opens only files that were uploaded to it.

    Gradio copies or downloads every file that a request names, also as the value of a slider. Its
    own check lets links and all files of its cache pass, the gallery's pictures among them.
    """

    async def preprocess_data(
        self, block_fn: Any, inputs: list[Any], state: Any, explicit_call: bool = False
    ) -> list[Any]:
        """Check the values of a request before anything is done with them."""
        if not named_files(inputs) <= self.upload_file_set:
            raise gr.Error("the page takes uploaded files only", print_exception=False)
        return await super().preprocess_data(block_fn, inputs, state, explicit_call)


def named_files(value: Any) -> set[str]:
    """Every "path" in the JSON of a request."""
    if isinstance(value, list):
        return set().union(*map(named_files, value))
    if not isinstance(value, dict):
        return set()
    own = {str(value["path"])} if "path" in value else set()
    return own.union(*map(named_files, value.values()))


def build_page(viewer: Viewer, examples: list[Example]) -> Page:
    """The whole page, ready to be served."""
    with Page(title="aib view", analytics_enabled=False, delete_cache=(600, 3600)) as page:
        scene = gr.State()
        with gr.Row(equal_height=False):
            with gr.Column(scale=1, min_width=300):
                file, gallery, status, picture, side, clear = _left(
                    examples, strangers(viewer.runs, examples)
                )
            with gr.Column(scale=1 + len(viewer.runs), min_width=320):
                with gr.Row():
                    opacity, shown = _sliders()
                columns = _columns(viewer)
        controls = Controls(file, gallery, status, picture, side, clear, opacity, shown)
        handlers = Handlers(viewer, examples, tiles=gallery.keep_in_cache)
        _wire(page, handlers, controls, scene, columns)
    page.state_session_capacity = SESSIONS
    # Answers that nobody has come for: of a page closed while it waited.
    page._queue.pending_messages_per_session.max_size = SESSIONS
    return page


def theme() -> gr.themes.Base:
    """Gradio's own with the fonts of the system: nothing is fetched."""
    return gr.themes.Default(
        font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"]
    )


def _left(examples: list[Example], note: str) -> tuple[Any, ...]:
    """Where a picture comes from, the picture, and what hides parts of it."""
    file = gr.File(label="Image file", show_label=False, height=120, elem_id="aib-file")
    gr.HTML('<p class="aib-soft">or pick an example:</p>')
    gallery = gr.Gallery(
        value=[_tile(example) for example in examples],
        show_label=False,
        columns=6,
        height="auto",
        allow_preview=False,
        interactive=False,
        buttons=[],
        format="png",
        elem_id="aib-examples",
    )
    if note:
        gr.HTML(message(note), elem_id="aib-strangers")
    status = gr.HTML(elem_id="aib-status")
    picture = gr.Image(
        show_label=False,
        format="png",
        interactive=False,
        buttons=[],
        height=320,
        alt_text="the picture; a click hides a block of it",
        elem_id="aib-picture",
    )
    gr.HTML('<p class="aib-soft">Click into the picture to hide a block of it.</p>')
    side = gr.Slider(
        5,
        60,
        BLOCK,
        step=5,
        label="Size of a block, % of the shorter side",
        buttons=[],
        elem_id="aib-side",
    )
    clear = gr.Button("Clear blocks", elem_id="aib-clear")
    return file, gallery, status, picture, side, clear


def _sliders() -> tuple[gr.Slider, gr.Slider]:
    look: dict[str, Any] = {"step": 1, "buttons": [], "min_width": 220}
    return (
        gr.Slider(0, 100, OPACITY, label="Opacity of the map, %", elem_id="aib-opacity", **look),
        gr.Slider(0, 1, 1, label="Levels shown, highest first", elem_id="aib-shown", **look),
    )


def _columns(viewer: Viewer) -> list[gr.HTML]:
    """One column a run, side by side; its panels in the order of PANELS."""
    panels: list[gr.HTML] = []
    with gr.Row(equal_height=False):
        for run in range(len(viewer.runs)):
            with gr.Column(min_width=320):
                gr.HTML(heading(viewer, run))
                panels.append(_panel("decision", run))
                with gr.Row(elem_classes="aib-maps"):
                    panels += [_panel(n, run) for n in ("attention", "levels", "uncertainty")]
                panels += [_panel("samples", run), _panel("change", run)]
    return panels


def _panel(name: str, run: int) -> gr.HTML:
    return gr.HTML(elem_id=f"aib-{name}-{run}")


def _wire(
    page: gr.Blocks, act: "Handlers", on: Controls, scene: gr.State, columns: list[gr.HTML]
) -> None:
    """Which event calls which handler. Nothing here is an API."""
    quiet: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    everything = [scene, on.status, on.picture, on.shown, *columns]
    page.load(spoken(act.start), None, everything, **quiet)
    on.file.upload(spoken(act.upload), on.file, [on.file, *everything], **quiet)
    on.gallery.select(spoken(act.pick), None, everything, **quiet)
    on.picture.select(spoken(act.hide), [scene, on.side, on.shown], everything, **quiet)
    on.clear.click(spoken(act.clear), [scene, on.shown], everything, **quiet)
    # A slider that is dragged asks for its last value only. The map's opacity is the browser's.
    on.shown.input(
        spoken(act.show_levels),
        [scene, on.shown],
        columns[PANELS.index(levels) :: len(PANELS)],
        trigger_mode="always_last",
        **quiet,
    )
    on.opacity.input(None, on.opacity, None, js=SET_OPACITY, queue=False)


class Handlers:
    """The answers to a visitor's doings: values for the page's parts, in the order of `_wire`."""

    def __init__(
        self, viewer: Viewer, examples: list[Example], tiles: Collection[str] = ()
    ) -> None:
        self.viewer, self.examples = viewer, examples
        self.tiles = tiles  # paths of the gallery's pictures, which uploads of the same share

    def start(self) -> list[Any]:
        """The first example, so that the page is never empty."""
        return self._example(0)

    def pick(self, chosen: gr.SelectData) -> list[Any]:
        """The example clicked on."""
        return self._example(chosen.index)

    def upload(self, path: str) -> list[Any]:
        """A file sent. The first value empties the drop zone for the next one."""
        try:
            return [None, *self._draw(self.viewer.read(Path(path)))]
        except AibError as error:  # the picture before it stays
            said = message(str(error), bad=True)
            return [None, gr.skip(), said, *self._unchanged(2 + len(PANELS) * self._runs)]
        finally:
            if path not in self.tiles:
                Path(path).unlink(missing_ok=True)

    def hide(self, scene: Scene | None, side: int, shown: int, clicked: gr.SelectData) -> list[Any]:
        """A block where the picture was clicked on."""
        scene = kept(scene)
        height, width = enlarged(scene.picture.shown).shape[:2]
        x, y = clicked.index
        block = Block((x + 0.5) / width, (y + 0.5) / height, side / 100)
        return self._draw(self.viewer.cover(scene, block), self._wanted(scene, shown))

    def clear(self, scene: Scene | None, shown: int) -> list[Any]:
        """The whole picture again."""
        scene = kept(scene)
        return self._draw(self.viewer.uncover(scene), self._wanted(scene, shown))

    def show_levels(self, scene: Scene | None, shown: int) -> list[Any]:
        """Only the levels' panels: nothing is computed anew."""
        scene = kept(scene)
        return [levels(self.viewer, scene, run, shown) for run in range(self._runs)]

    @property
    def _runs(self) -> int:
        return len(self.viewer.runs)

    def _example(self, index: int) -> list[Any]:
        example = self.examples[index]
        return self._draw(self.viewer.show(example.image, example.name))

    def _wanted(self, scene: Scene, shown: int) -> int | None:
        """Who saw all levels goes on seeing all of them."""
        return None if shown >= scene.used_levels else shown

    def _draw(self, scene: Scene, shown: int | None = None) -> list[Any]:
        """Everything anew, with the `shown` highest levels or with all."""
        used = scene.used_levels
        shown = used if shown is None else min(shown, used)
        slider = gr.Slider(maximum=max(used, 1), value=shown, interactive=used > 0)
        parts = [p(self.viewer, scene, run, shown) for run in range(self._runs) for p in PANELS]
        picture = enlarged(self.viewer.shown(scene))
        return [scene, message(scene.picture.name), picture, slider, *parts]

    def _unchanged(self, count: int) -> list[Any]:
        return [gr.skip() for _ in range(count)]


def kept(scene: Scene | None) -> Scene:
    """The visitor's picture; a page that has stood open for long may have lost its own."""
    if scene is None:
        raise AibError(
            "the viewer no longer has this picture (it was restarted, or too many other pages are "
            "open): reload the page"
        )
    return scene


def enlarged(shown: Array) -> Array:
    """A small picture grown by a whole factor, so that its pixels can be aimed at."""
    factor = max(1, SHOWN_SIDE // max(shown.shape[:2]))
    return shown.repeat(factor, axis=0).repeat(factor, axis=1)


def _tile(example: Example) -> Array:
    small = example.image.copy()
    small.thumbnail((TILE, TILE))
    return np.asarray(small)


def spoken(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Errors that are meant for people reach them as a sentence on the page."""

    @wraps(handler)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return handler(*args, **kwargs)
        except AibError as error:
            raise gr.Error(str(error), print_exception=False) from error

    return guarded
