"""Localisation: maps against ground-truth masks or boxes.

Polarity matters: a map may highlight the background, and then its AUROC is below 1/2. It is
reported as it is, never inverted.

A mask is bool, or integers: 0 is background, 255 a pixel that counts in no score (the border of a
trimap), everything else the object.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from aib.data.objects import object_and_counted
from aib.evaluation.intervals import Estimate
from aib.figures.table import NOTHING, Table, number, table_of, without_empty_columns
from aib.interpret.measure import Context, Measure, View, map_name, subset_size
from aib.interpret.metrics.checks import check_objects, resize_maps
from aib.interpret.metrics.metric import BootstrapMetric
from aib.interpret.metrics.similarity import auroc
from aib.interpret.metrics.wsol import WSOL
from aib.interpret.results import Located, Study


def pointing(maps: Tensor, objects: Tensor) -> Tensor:
    """Share of a map's maxima that lie inside the mask, per image [B]."""
    maps, inside, counted = _paired(maps, objects)
    maps = maps.masked_fill(~counted, -torch.inf)
    maxima = (maps == maps.amax(dim=1, keepdim=True)) & counted
    share = (maxima & inside).sum(dim=1).double() / maxima.sum(dim=1)
    return _where_defined(share, inside, counted)


def energy_inside(maps: Tensor, objects: Tensor) -> Tensor:
    """Share of a map's positive mass inside the mask, per image [B]; NaN without positive mass."""
    maps, inside, counted = _paired(maps, objects)
    mass = maps.double().clamp_min(0) * counted
    return _where_defined((mass * inside).sum(dim=1) / mass.sum(dim=1), inside, counted)


def mask_auroc(maps: Tensor, objects: Tensor) -> Tensor:
    """How well a map tells the mask's pixels from the others, ties for one half, per image [B]."""
    return auroc(*_paired(maps, objects))


METRICS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "pointing": pointing,
    "energy": energy_inside,
    "auroc": mask_auroc,
}


class Localisation(BootstrapMetric):
    """Pointing game, mass inside and AUROC: computed per image, then averaged.

    `compute` returns scalar tensors by name: each metric (0 to 1), `NAME_low` and `NAME_high`
    (bootstrap over images), `NAME_undefined` (images left out: the mask covers everything or
    nothing, or the map has no positive mass), and `images`. Without any image a metric is NaN.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        for name in METRICS:
            self.add_state(name, default=[], dist_reduce_fx="cat")

    def update(self, maps: Tensor, objects: Tensor) -> None:
        """Add maps [B,h,w], bilinearly resized to the masks [B,H,W] (bool or integers)."""
        check_objects(objects, len(maps))
        maps = resize_maps(maps, (objects.shape[1], objects.shape[2]))
        for name, metric in METRICS.items():
            getattr(self, name).append(metric(maps, objects).float())
        self.count_broken(maps)

    def compute(self) -> dict[str, Tensor]:
        """The values named above."""
        values = {name: self.per_image(name) for name in METRICS}  # [N] each
        defined = {name: (~v.isnan()).double() for name, v in values.items()}
        found = self.ratios({name: (v.nan_to_num(), defined[name]) for name, v in values.items()})
        for name, has_value in defined.items():
            found[f"{name}_undefined"] = (1 - has_value).sum().long()
        images = len(values["auroc"])
        return found | {"images": torch.tensor(images, device=self.broken.device)}


def _paired(maps: Tensor, objects: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    check_objects(objects, len(maps))
    maps = resize_maps(maps, (objects.shape[1], objects.shape[2]))
    inside, counted = object_and_counted(objects)
    return maps.flatten(1), inside.flatten(1), counted.flatten(1)  # [B,H*W] each


def _where_defined(values: Tensor, inside: Tensor, counted: Tensor) -> Tensor:
    pixels = inside.sum(dim=1)
    return values.masked_fill((pixels == 0) | (pixels == counted.sum(dim=1)), torch.nan)


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
