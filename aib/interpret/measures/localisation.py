"""Localisation: maps against ground-truth masks or boxes."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import Tensor

from aib.evaluation.intervals import Estimate, defined_means
from aib.figures.table import NOTHING, Table, number, table_of, without_empty_columns
from aib.interpret.measure import Context, Measure, View, map_name, subset_size
from aib.interpret.measured import Located
from aib.interpret.metrics.checks import check_finite, count_broken
from aib.interpret.metrics.columns import Columns
from aib.interpret.metrics.pointing import energy_inside, mask_auroc, pointing
from aib.interpret.metrics.wsol import IOUS, cut_estimates, cut_maps
from aib.interpret.results import Study

METRICS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "pointing": pointing,
    "energy": energy_inside,
    "auroc": mask_auroc,
}


class Localisation:
    """Maps against masks: computed per image, then averaged, with bootstrap intervals.

    Images that do not define a metric are counted and left out: the mask covers everything or
    nothing, or the map has no positive mass. `outlines=False`: the masks are filled boxes, so that
    all that needs pixels is undefined and left out.
    """

    def __init__(self, *, outlines: bool = True, seed: int = 0) -> None:
        self.outlines, self.seed = outlines, seed
        self.columns = Columns()

    def update(self, maps: Tensor, objects: Tensor, boxes: Tensor | None = None) -> None:
        """Add maps [B,h,w], bilinearly resized to the masks [B,H,W] (bool or integers).

        `boxes` [B,4] or [B,n,4] are the objects' boxes in pixels, clipped to the image; NaN pads
        images with fewer. By default one box around each mask. An image may have a box and no mask.
        """
        check_finite(int(count_broken(maps)))
        found = {name: metric(maps, objects).float() for name, metric in METRICS.items()}
        self.columns.add(**found, **cut_maps(maps, objects, boxes, self.outlines))

    def compute(self) -> Located:
        """All metrics, 0 to 1."""
        columns = {name: values.double() for name, values in self.columns.whole().items()}
        found = defined_means({name: columns.pop(name) for name in METRICS}, seed=self.seed)
        found |= cut_estimates(columns, seed=self.seed)
        at = {iou: found.pop(f"at {iou:g}") for iou in IOUS}
        return Located(len(columns["ious"]), max_box_acc_at=at, **found)


class LocalisationMeasure(Measure):
    """Pointing game, mass inside, AUROC, boxes and masks, by kind of map."""

    title = "localisation"
    needs = frozenset({"objects"})
    subset = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.located: dict[str, Localisation] = {}

    def update(self, view: View) -> None:
        batch, context = view.batch, self.context
        assert batch.objects is not None
        new = partial(Localisation, outlines="outlines" in context.has, seed=context.seed)
        for kind, maps in view.maps.items():
            self.located.setdefault(kind, new()).update(maps, batch.objects, batch.boxes)

    def fields(self) -> dict[str, Any]:
        return {"localisation": {kind: one.compute() for kind, one in self.located.items()}}

    @staticmethod
    def tables(studies: Mapping[str, Study]) -> list[Table]:
        """Maps as they are, then cut at a threshold."""
        found = [
            ({"map": map_name(kind), "run": label}, located)
            for label, study in studies.items()
            for kind, located in study.localisation.items()
        ]
        subset = subset_size(studies)
        return [_as_they_are(found, subset), _thresholded(found, subset)]


def _as_they_are(found: list[tuple[dict[str, str], Located]], subset: str) -> Table:
    rows = [
        {
            **of,
            "pointing %": one.pointing.format(times=100),
            "mass inside %": one.energy.format(times=100),
            "on background %": outside(one.energy.value),
            "AUROC": one.auroc.format(3),
            "undefined": number(one.auroc.undefined, 0),
        }
        for of, one in found
    ]
    note = (
        f"On {subset} images. An AUROC below 0.5 is a map that highlights the background; it is "
        "never inverted. It is undefined for images that the object fills, and without an object "
        "or a mask."
    )
    return table_of("Where is the object?", rows, note)


def _thresholded(found: list[tuple[dict[str, str], Located]], subset: str) -> Table:
    rows = [
        {
            **of,
            "MaxBoxAccV2 %": _percent(one.max_box_acc),
            "at IoU 0.5 %": _percent(one.max_box_acc_at.get(0.5)),
            "PxAP %": _percent(one.pxap),
            "mask IoU %": _percent(one.mask_iou),
            "max F %": _percent(one.max_f),
            "MAE": (one.mae or Estimate()).format(3),
        }
        for of, one in found
        if one.max_box_acc or one.pxap
    ]
    note = (
        f"On {subset} images; maps scaled to their own range and cut at a threshold. MaxBoxAccV2: "
        "share of images in which the box of any component fits the object's, averaged over three "
        "IoUs. PxAP: area under the precision-recall curve of all pixels. F: with beta^2 = 0.3. "
        "MAE: mean absolute error of the scaled map. As published, the threshold is the best one "
        "on these same images."
    )
    return without_empty_columns(table_of("Which box, which pixels?", rows, note))


def outside(inside: float | None) -> str:
    """The share of the mass on the background, in percent."""
    return number(None if inside is None else 1 - inside, 1, 100)


def _percent(found: Estimate | None) -> str:
    return NOTHING if found is None else found.format(times=100)
