"""What the model decides, what its latent and map carry, and its own map against the object."""

import warnings
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from aib.config.validation import check_decided
from aib.errors import AibWarning
from aib.evaluation.error import closed_warning
from aib.evaluation.intervals import finite_or_none
from aib.figures.table import Table, number, table_of
from aib.interpret.measure import Context, Measure, View
from aib.interpret.measured import Information
from aib.interpret.metrics.pointing import energy_inside, mask_auroc, pointing
from aib.interpret.metrics.similarity import min_max
from aib.interpret.results import Study
from aib.models import explanation
from aib.models.masked import CLOSED


def anchor_counts(indices: Tensor, num_anchors: int) -> Tensor:
    """How often each map uses each anchor: indices [...,h,w] to integers [...,Q]."""
    return F.one_hot(indices.flatten(-2).long(), num_anchors).sum(dim=-2)


def entropy_bits(counts: Tensor) -> Tensor:
    """Entropy of the distribution given by counts [...,Q]: [...], 0 to log2 Q.

    2^H is the perplexity, the number of equally used anchors that has this entropy.
    """
    return explanation.entropy_bits(counts.double() / counts.double().sum(dim=-1, keepdim=True))


class Images(Measure):
    """Means over all images."""

    title = "images"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.anchors: Tensor | None = None

    def update(self, view: View) -> None:
        batch, found = view.batch, view.explanation
        columns: dict[str, Tensor | None] = {
            "correct": (found.prediction == batch.labels).float(),
            "probability": found.probability,
            "kl_bits": found.kl_bits,
        }
        if found.map is not None:
            scaled = min_max(found.map)
            columns |= {"contrast": scaled.contrast, "flat": scaled.flat.float()}
            if batch.objects is not None:
                columns["pointing"] = pointing(found.map, batch.objects)
                columns["energy_inside"] = energy_inside(found.map, batch.objects)
                columns["auroc"] = mask_auroc(found.map, batch.objects)
        if found.mask is not None:
            columns["nearly_closed"] = (found.mask.mean((1, 2)) < CLOSED).float()
        if found.level_indices is not None and found.anchors is not None:
            used = anchor_counts(found.level_indices, len(found.anchors))  # [B,Q]
            columns |= {"used": used, "entropy_bits": entropy_bits(used)}
            self.anchors = found.anchors
        self.columns.add(**{name: one for name, one in columns.items() if one is not None})

    def fields(self) -> dict[str, Any]:
        """`images`, `accuracy`, `information` and localisation: means over the images.

        With a warning where many masks are nearly closed.
        """
        columns = self.columns.whole()
        used = columns.pop("used", None)
        undecided = int(columns["probability"].isnan().sum())
        check_decided(undecided, images := len(columns["probability"]))
        means = {name: finite_or_none(v.cpu().double().nanmean()) for name, v in columns.items()}
        shares = None
        if used is not None:
            total = used.sum(0).double()
            shares = (total / total.sum()).tolist()
        information = Information(
            **{name: means.get(name) for name in ("kl_bits", "entropy_bits", "nearly_closed")},
            perplexity=2 ** float(entropy_bits(torch.tensor(shares))) if shares else None,
            contrast=means.get("contrast"),
            flat_maps=means.get("flat"),
            anchors=None if self.anchors is None else self.anchors.float().tolist(),
            anchor_shares=shares,
        )
        if text := closed_warning(information.nearly_closed or 0.0):
            warnings.warn(text, AibWarning, stacklevel=2)
        own = {name: means.get(name) for name in ("pointing", "energy_inside", "auroc")}
        return {
            "images": images,
            "accuracy": 100 * (means["correct"] or 0.0),
            "information": information,
            "localisation_own_all_images": {k: v for k, v in own.items() if v is not None},
        }

    @staticmethod
    def tables(studies: Mapping[str, Study]) -> list[Table]:
        rows = [
            {
                "run": label,
                "KL without noise, bits per image": number(found.kl_bits, 1),
                "entropy of a map's levels, bits": number(found.entropy_bits, 2),
                "anchors in use": number(found.perplexity, 1),
                "masks below 2% area %": number(found.nearly_closed, 1, 100),
                "contrast": number(found.contrast, 3),
            }
            for label, study in studies.items()
            for found in [study.information]
        ]
        note = (
            "Entropy: of one map's levels, averaged over the images. Anchors in use: the "
            "perplexity, 2 to the power of the entropy of all maps together. Contrast is the "
            "highest score of a map minus the lowest."
        )
        return [table_of("How much information?", rows, note)]
