"""What the model decides, what its latent and map carry, and its own map against the object."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from aib.config.validation import check_decided
from aib.evaluation.intervals import finite_or_none
from aib.interpret.measure import Context, Measure, View
from aib.interpret.measured import Information, OwnLocalisation
from aib.interpret.metrics.pointing import energy_inside, mask_auroc, pointing
from aib.interpret.metrics.similarity import min_max
from aib.models import explanation


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
        self.parts: dict[str, list[Tensor]] = {}
        self.anchors: Tensor | None = None
        self.used: list[Tensor] = []  # [B,Q], how often each map uses each anchor

    def update(self, view: View) -> None:
        """Add the values of a batch."""
        batch, found = view.batch, view.explanation
        columns: dict[str, Tensor | None] = {
            "correct": (found.prediction == batch.labels).float(),
            "probability": found.probability,
            "kl_bits": found.kl_bits,
            "energy_passed": found.energy_passed,
        }
        if found.map is not None:
            scaled = min_max(found.map)
            columns |= {"contrast": scaled.contrast, "flat": scaled.flat.float()}
            if batch.objects is not None:
                columns["pointing"] = pointing(found.map, batch.objects)
                columns["energy_inside"] = energy_inside(found.map, batch.objects)
                columns["auroc"] = mask_auroc(found.map, batch.objects)
        if found.level_indices is not None and found.anchors is not None:
            used = anchor_counts(found.level_indices, len(found.anchors))
            columns["entropy_bits"] = entropy_bits(used)
            self.anchors = found.anchors
            self.used.append(used)
        for name, values in columns.items():
            if values is not None:
                self.parts.setdefault(name, []).append(values)

    def fields(self) -> dict[str, Any]:
        """`images`, `accuracy`, `information` and `own_localisation`: means over the images."""
        columns = {name: torch.cat(values) for name, values in self.parts.items()}
        undecided = int(columns["probability"].isnan().sum())
        check_decided(undecided, images := len(columns["probability"]))
        means = {name: finite_or_none(v.cpu().double().nanmean()) for name, v in columns.items()}
        shares = None
        if self.anchors is not None:
            used = torch.cat(self.used).sum(0).double()
            shares = (used / used.sum()).tolist()
        information = Information(
            **{name: means.get(name) for name in ("kl_bits", "entropy_bits", "energy_passed")},
            perplexity=2 ** float(entropy_bits(torch.tensor(shares))) if shares else None,
            contrast=means.get("contrast"),
            flat_maps=means.get("flat"),
            anchors=None if self.anchors is None else self.anchors.float().tolist(),
            anchor_shares=shares,
        )
        own = (means.get(name) for name in ("pointing", "energy_inside", "auroc"))
        return {
            "images": images,
            "accuracy": 100 * (means["correct"] or 0.0),
            "information": information,
            "own_localisation": OwnLocalisation(*own),
        }
