"""The protocol of a study: measures see the same batches, and maps of a batch are made once.

To add a measurement, write one file with a subclass of `Measure`, add the class to
`studies.MEASURES`, its result to `measured`, and a field for it to `Study`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from torch import Tensor

from aib.data import Batch, Batches
from aib.figures.table import Table
from aib.interpret.maps import explain_batch
from aib.interpret.metrics.columns import Columns
from aib.interpret.metrics.perturb import Modification
from aib.interpret.results import Study
from aib.models.classifier import Classifier
from aib.models.explanation import Explanation
from aib.system.progress import Tick, silent

KEEP = 2**30  # bytes of images at most that stay in memory between two passes
MapMaker = Callable[[Tensor, Batch], Tensor]  # normalised images [B,3,H,W] to maps [B,h,w]
NAMES = {
    "own": "own map",
    "gradcam": "Grad-CAM",
    "centre": "centre Gaussian (control)",
    "random": "random (control)",
}


@dataclass(frozen=True)
class Context:
    """What a study measures, the same in all passes."""

    model: Classifier
    # What there is: maps, takes_map, mask, objects, outlines (more than boxes), evaluator.
    has: frozenset[str]
    seed: int = 0
    modifications: Mapping[str, Modification] = field(default_factory=dict)
    foreign: Tensor | None = None  # uint8 [M,3,h,w], images that occlude
    makers: Mapping[str, MapMaker] = field(default_factory=dict)  # by kind of map
    evaluator: Classifier | None = None
    evaluator_name: str = ""
    batch_size: int = 64  # of passes over what a measure stored
    tick: Tick = silent


class View:
    """One batch as the measures see it; what several of them need is computed once."""

    def __init__(self, context: Context, batch: Batch, first: int = 0) -> None:
        self.context, self.batch = context, batch
        self.first = first  # position of the batch's first image in this pass
        self.x = context.model.preprocessing.normalise(batch.images)  # [B,3,S,S]

    @cached_property
    def explanation(self) -> Explanation:
        """The deterministic decision, with the model's own map."""
        return explain_batch(self.context.model, self.x, deterministic=True)

    @cached_property
    def maps(self) -> dict[str, Tensor]:
        """Maps [B,h,w] of every kind."""
        makers = self.context.makers
        return {kind: make(self.x, self.batch) for kind, make in makers.items()}

    def modified(self, modify: Modification) -> Tensor:
        """The normalised images after a modification."""
        context = self.context
        pixels = modify(
            self.batch.images, self.batch.index, seed=context.seed, foreign=context.foreign
        )
        return context.model.preprocessing.normalise(pixels)


class Measure:
    """One measurement: it takes batches, and gives fields of `Study` and tables."""

    title: ClassVar[str]  # on the progress bar
    needs: ClassVar[frozenset[str]] = frozenset()  # left out where `Context.has` lacks one
    subset: ClassVar[bool] = False  # whether it is expensive, and sees the subset only
    quick: ClassVar[bool] = True  # whether `--quick` has it
    stores: ClassVar[bool] = False  # whether `fields` takes as long as a pass, and ticks
    passes: ClassVar[int] = 1  # 2: `update_again` sees every batch once more

    def __init__(self, context: Context) -> None:
        self.context = context
        self.columns = Columns()

    def update(self, view: View) -> None:
        """Add a batch."""

    def update_again(self, view: View) -> None:
        """See a batch once more, after all images were seen."""

    def fields(self) -> dict[str, Any]:
        """The result: fields of `Study`."""
        return {}

    @staticmethod
    def tables(studies: Mapping[str, Study]) -> list[Table]:
        """The tables of several studies, by the labels of their runs."""
        return []


def run_measures(context: Context, measures: list[Measure], feed: Batches) -> list[Measure]:
    """Show all batches to the measures: in one pass, and in a second one to those that need it."""
    turns = max((m.passes for m in measures), default=0)
    size = 4 * feed.data.preprocessing.image_size**2 * feed.num_images  # bytes, with masks
    keeps = feed.data.files is not None and turns > 1 and size <= KEEP
    kept: list[Batch] = []
    for turn in range(turns):
        first = 0
        for batch in kept or feed:
            if keeps and not turn:
                kept.append(batch)  # so that no file is decoded twice
            view = View(context, batch, first)
            first += len(batch.index)
            for measure in measures:
                if turn < measure.passes:
                    (measure.update_again if turn else measure.update)(view)
                    context.tick(measure.title, len(batch.index))
    return measures


def subset_size(studies: Mapping[str, Study]) -> str:
    """How many images the expensive measures saw."""
    counts = sorted({study.subset_images for study in studies.values()})
    return " or ".join(f"{count:,}" for count in counts)


def map_name(kind: str) -> str:
    """A kind of map in words; a map that was given has its own name."""
    return NAMES.get(kind, kind)
