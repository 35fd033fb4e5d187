"""Where is the object? Each kind of map against the ground-truth masks or boxes."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from aib.evaluation.intervals import Estimate
from aib.figures.table import NOTHING, Table, number, table_of, without_empty_columns
from aib.interpret.measure import Context, Measure, View, map_name, subset_size
from aib.interpret.metrics.localise import METRICS, Localisation
from aib.interpret.metrics.wsol import WSOL
from aib.interpret.results import Located, Study


class LocalisationMeasure(Measure):
    """Pointing game, mass inside, AUROC, boxes and masks, by kind of map."""

    title = "localisation"
    needs = frozenset({"objects"})
    subset = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.located: dict[str, Localisation] = {}
        self.cut: dict[str, WSOL] = {}

    def update(self, view: View) -> None:
        """Add a batch's maps."""
        batch, seed = view.batch, self.context.seed
        assert batch.objects is not None
        for kind, maps in view.maps.items():
            if kind not in self.located:
                self.located[kind] = Localisation(seed=seed).to(maps.device)
                self.cut[kind] = WSOL(objects=self.context.outlines, seed=seed).to(maps.device)
            self.located[kind].update(maps, batch.objects)
            self.cut[kind].update(maps, batch.objects, batch.boxes)

    def fields(self) -> dict[str, Any]:
        """`localisation`, by kind of map."""
        return {
            "localisation": {
                kind: Located.from_flat(
                    {k: float(v) for k, v in (one.compute() | self.cut[kind].compute()).items()}
                )
                for kind, one in self.located.items()
            }
        }

    def columns(self) -> dict[str, Tensor]:
        """By the names of the columns of all images."""
        names = {name: "energy_inside" if name == "energy" else name for name in METRICS}
        return {
            f"{kind} {column}": one.per_image(name)
            for kind, one in self.located.items()
            for name, column in names.items()
        }

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
        }
        for of, one in found
        if one.max_box_acc or one.pxap
    ]
    note = (
        f"On {subset} images; maps scaled to their own range and cut at a threshold. MaxBoxAccV2: "
        "share of images in which the box of any component fits the object's, averaged over three "
        "IoUs. PxAP: area under the precision-recall curve of all pixels. As published, the "
        "threshold is the best one on these same images."
    )
    return without_empty_columns(table_of("Which box, which pixels?", rows, note))


def outside(inside: float | None) -> str:
    """The share of the mass on the background, in percent."""
    return number(None if inside is None else 1 - inside, 1, 100)


def _percent(found: Estimate | None) -> str:
    return NOTHING if found is None else found.format(times=100)
