"""Does the decision follow the pixels or the map? Objects under the maps of other images."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from aib.figures.table import Table, table_of
from aib.interpret.measure import Context, Measure, View
from aib.interpret.metrics.seeded import Stream, random_words
from aib.interpret.metrics.transplant import ENOUGH, mask_boxes, mass_boxes, transplant
from aib.interpret.results import Study
from aib.models.masked import Masked
from aib.models.types import Attention

IMAGES = 2048  # of a random choice at most: their pixels stay in memory


class TransplantMeasure(Measure):
    """`transplant` among a random choice of the images."""

    title = "transplant"
    needs = frozenset({"takes_map"})

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.stored: dict[str, Tensor] = {}

    def update(self, view: View) -> None:
        """Store a batch's pixels, maps and decisions."""
        found, index = view.explanation, view.batch.index
        assert found.map is not None
        new = {
            "word": random_words(self.context.seed, Stream.TRANSPLANT, index, 1)[:, 0],
            "index": index,
            "pixels": view.batch.images,
            "maps": self.context.model.applied_map(found.map),
            "own": found.prediction,
        }
        if self.stored:
            new = {name: torch.cat([values, new[name]]) for name, values in self.stored.items()}
        if len(new["word"]) > 2 * IMAGES:
            new = self._chosen(new)
        self.stored = new

    @staticmethod
    def _chosen(stored: dict[str, Tensor]) -> dict[str, Tensor]:
        """The images of the lowest random words."""
        keep = stored["word"].argsort()[:IMAGES].sort().values
        return {name: values[keep] for name, values in stored.items()}

    def _maps(self, i: Tensor) -> Tensor:
        """The maps of positions i: a masked model's mask [B,H,W], or the applied map [B,h,w]."""
        model, maps = self.context.model, self.stored["maps"][i]
        if not isinstance(model, Masked):
            return maps
        return model.mask_of(Attention.fixed(maps), self.stored["pixels"].shape[2:])[0]

    def _predict(self, x: Tensor, maps: Tensor) -> Tensor:
        given = {"mask" if isinstance(self.context.model, Masked) else "attention_map": maps}
        return self.context.model(x, deterministic=True, **given).logits.argmax(1)

    @torch.no_grad()
    def fields(self) -> dict[str, Any]:
        """`transplant`."""
        model, self.stored = self.context.model, self._chosen(self.stored)
        own, size = self.stored["own"], 64
        find = mask_boxes if isinstance(model, Masked) else mass_boxes
        everything = torch.arange(len(own), device=own.device)
        result = transplant(
            self._predict,
            lambda i: model.preprocessing.normalise(self.stored["pixels"][i]),
            self._maps,
            own,
            self.stored["index"],
            torch.cat([find(self._maps(i)) for i in everything.split(size)]),
            noise_std=getattr(model, "noise_std", 1.0),
            batch_size=size,
            seed=self.context.seed,
        )
        return {"transplant": result}

    @staticmethod
    def tables(studies: Mapping[str, Study]) -> list[Table]:
        """What the decision follows, beside both controls."""
        rows = []
        for label, study in studies.items():
            found = study.transplant
            if found is None or not (found.pixels and found.map and found.chance):
                continue
            assert found.own_map and found.foreign_map
            shares = {
                "follow the pixels %": found.pixels,
                "follow the map %": found.map,
                "chance %": found.chance,
                "control: own map %": found.own_map,
                "control: map of the same class %": found.foreign_map,
            }
            rows.append(
                {
                    "run": label,
                    "pairs": f"{found.pairs:,.0f}",
                    **{name: one.format(times=100) for name, one in shares.items()},
                    "cleared": "yes" if found.cleared else "no",
                }
            )
        note = (
            "The object of one image is resampled to fit under the map of an image of another "
            "class. Chance: the prediction is the class of an unrelated image. Controls: the "
            "resampled object under its own map, and under the fitted map of another image of its "
            f"class. With fewer than {ENOUGH} pairs nothing is reported."
        )
        return [table_of("Does the decision follow the pixels or the map?", rows, note)]
