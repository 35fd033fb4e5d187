"""Does closed mean closed? A masked model's mask, and the accuracy with the mask changed."""

import warnings
from collections.abc import Mapping
from typing import Any

from aib.errors import AibWarning
from aib.figures.table import Table, number, table_of
from aib.interpret.measure import Context, Measure, View
from aib.interpret.metrics.mask_use import MaskSums
from aib.interpret.results import Study
from aib.models.masked import Masked

MAX_NEARLY_CLOSED = 5  # percent of the images, from which on there is a warning


class MaskMeasure(Measure):
    """`mask_use` on all images."""

    title = "changed masks"
    needs = frozenset({"mask"})

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        assert isinstance(context.model, Masked)
        self.sums = MaskSums(context.model, seed=context.seed)

    def update(self, view: View) -> None:
        """Add a batch."""
        self.sums.add(view.x, view.batch.labels)

    def fields(self) -> dict[str, Any]:
        """`mask`, with a warning where many masks are nearly closed."""
        found = self.sums.result()
        if (found.nearly_closed or 0) > MAX_NEARLY_CLOSED:
            text = f"the mask keeps less than 2% of the pixels in {found.nearly_closed:.1f}% of "
            warnings.warn(f"{text}the images", AibWarning, stacklevel=2)
        return {"mask": found}

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
                "images below 2% area %": number(found.nearly_closed, 1),
                "bits per image": f"{found.bits:,.0f}",
                "bits through m < 0.5 %": number(found.faint_bits, 1),
                "noise changes the prediction %": f"{found.prediction_changes:.1f}",
                "probability ± points": f"{found.probability_std:.1f}",
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
            "the shape of the mask is not counted. Noise: images whose prediction is not the same "
            "in 4 passes with new noise, and the standard deviation of the predicted class's "
            "probability."
        )
        lost = (
            "Percentage points of accuracy lost with the mask changed (95% interval). A model that "
            "loses much reads the faint or the exact values of its mask."
        )
        return [
            table_of("What does the mask let through?", through, note),
            table_of("Does closed mean closed?", changed, lost),
        ]
