"""Does closed mean closed? What a mask lets through, and how far its values encode the decision.

Nothing in training moves m from 0.1 to 0, and an average over many pixels of 0.1 restores what
they show. So the mask is measured, and the model is run with the mask changed in ways that keep
where it is open: a model that loses accuracy reads the values of the mask, not only the pixels.
"""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from aib.evaluation.intervals import Estimate
from aib.figures.table import Table, number, table_of
from aib.interpret.measure import Measure, View
from aib.interpret.measured import MaskUse
from aib.interpret.metrics.swap import drop_between
from aib.interpret.results import Study
from aib.models.masked import Masked

FAINT = 0.1  # values below it are set to 0
HALF = 0.5  # bits through values below it are counted
CHANGED = ("without_faint", "rounded", "shifted", "blurred")
SHARES = ("closed", "open", "area", "accuracy")


def _measure(model: Masked, view: View) -> dict[str, Tensor]:
    """One value per image of a batch, [B] each."""
    x, y, own = view.x, view.batch.labels, view.explanation
    m, a, bits = own.mask, own.map, own.bits  # [B,H,W], [B,h,w], [B,H,W]
    assert m is not None and a is not None and bits is not None
    index = torch.arange(view.first, view.first + len(x), device=x.device)

    def correct(**given: Tensor) -> Tensor:
        return model(x, deterministic=True, **given).logits.argmax(-1) == y

    return {
        "without_faint": correct(mask=m.where(m >= FAINT, 0)),
        "rounded": correct(mask=(m >= HALF).to(m)),
        "shifted": correct(attention_map=shift(a, index)),
        "blurred": correct(attention_map=blur(a)),
        "closed": (m == 0).double().mean((1, 2)),
        "open": (m == 1).double().mean((1, 2)),
        "area": m.double().mean((1, 2)),
        "bits": bits.double().sum((1, 2)),
        "faint_bits": bits.where(m < HALF, 0).double().sum((1, 2)),
        "accuracy": own.prediction == y,
    }


def shift(a: Tensor, index: Tensor) -> Tensor:
    """Maps [B,h,w] moved by one cell, image by image right, down, left and up; edges repeat."""
    padded = F.pad(a[:, None], (1, 1, 1, 1), mode="replicate")[:, 0]  # [B,h+2,w+2]
    h, w = a.shape[1:]
    corners = ((1, 0), (0, 1), (1, 2), (2, 1))  # of the window: top, left
    moved = torch.stack([padded[:, top : top + h, left : left + w] for top, left in corners])
    return moved[index % 4, torch.arange(len(a), device=a.device)]


def blur(a: Tensor) -> Tensor:
    """Maps [B,h,w] averaged over 3 x 3 cells; edges repeat."""
    return F.avg_pool2d(F.pad(a[:, None], (1, 1, 1, 1), mode="replicate"), 3, 1)[:, 0]


def _drop(own: Tensor, changed: Tensor) -> Estimate:
    """Points of accuracy lost, with a 95% interval."""
    found = drop_between(own, changed)
    return Estimate(100 * found.drop, 100 * found.low, 100 * found.high)


class MaskMeasure(Measure):
    """What the mask lets through, and accuracy with the mask changed, in deterministic passes."""

    title = "changed masks"
    quick = False
    needs = frozenset({"mask"})

    def update(self, view: View) -> None:
        assert isinstance(self.context.model, Masked)
        self.columns.add(**_measure(self.context.model, view))

    def fields(self) -> dict[str, Any]:
        columns = self.columns.whole()
        means = {name: float(values.double().mean()) for name, values in columns.items()}
        results: dict[str, Any] = {name: 100 * means[name] for name in SHARES}
        results |= {name: _drop(columns["accuracy"], columns[name]) for name in CHANGED}
        images, bits = len(columns["accuracy"]), means["bits"]
        faint_bits = 100 * means["faint_bits"] / bits if bits else None
        return {"mask": MaskUse(images=images, bits=bits, faint_bits=faint_bits, **results)}

    @staticmethod
    def tables(studies: Mapping[str, Study]) -> list[Table]:
        """How much of each image the mask opens, and accuracy lost with the mask changed."""
        masks = {label: study.mask for label, study in studies.items() if study.mask}
        through = [
            {
                "run": label,
                "closed, m = 0 %": f"{found.closed:.1f}",
                "open, m = 1 %": f"{found.open:.1f}",
                "area %": f"{found.area:.1f}",
                "bits per image": f"{found.bits:,.0f}",
                "bits through m < 0.5 %": number(found.faint_bits, 1),
            }
            for label, found in masks.items()
        ]
        changed = [
            {
                "run": label,
                "accuracy %": f"{found.accuracy:.2f}",
                "m < 0.1 closed": found.without_faint.format(2, to=" to "),
                "rounded to 0 or 1": found.rounded.format(2, to=" to "),
                "shifted by one cell": found.shifted.format(2, to=" to "),
                "blurred": found.blurred.format(2, to=" to "),
            }
            for label, found in masks.items()
        ]
        note = (
            "Means over the images. Bits: an upper bound on what the pixels tell given the mask; "
            "the shape of the mask is not counted."
        )
        lost = (
            "Percentage points of accuracy lost with the mask changed (95% interval). A model that "
            "loses much reads the faint or the exact values of its mask."
        )
        return [
            table_of("What does the mask let through?", through, note),
            table_of("Does closed mean closed?", changed, lost),
        ]
