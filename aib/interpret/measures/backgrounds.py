"""Does the decision rest on the background? The error with the object on other backgrounds.

The object is cut out by its ground-truth mask, and the hole that it leaves is filled from its
surroundings. On its own filled background the object shows what cutting and filling cost by
themselves. Every model sees the same pixels, so that models with and without a map compare.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from aib.evaluation.intervals import mean_estimates
from aib.figures.table import Table, table_of
from aib.interpret.measure import Context, Measure, View
from aib.interpret.measured import Backgrounds
from aib.interpret.metrics.columns import RandomChoice
from aib.interpret.metrics.fill import fill_hole
from aib.interpret.metrics.seeded import Stream, random_words
from aib.interpret.metrics.swap import draw_partners, guessing
from aib.interpret.results import Study


class BackgroundMeasure(Measure):
    """Decisions on a random choice of the images, with their backgrounds exchanged."""

    title = "other backgrounds"
    needs = frozenset({"outlines"})
    quick, stores = False, True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.without = 0  # images without a known object
        self.choice = RandomChoice(context.seed, Stream.BACKGROUND)

    def update(self, view: View) -> None:
        batch = view.batch
        assert batch.objects is not None
        has = (batch.objects == 1).flatten(1).any(1).nonzero()[:, 0]
        self.without += len(view.x) - len(has)
        new = {
            "index": batch.index,
            "pixels": batch.images,
            "objects": batch.objects,
            "labels": batch.labels,
            "right": view.explanation.prediction == batch.labels,
        }
        self.choice.add(**{name: values[has] for name, values in new.items()})

    @cached_property
    def stored(self) -> dict[str, Tensor]:
        """The chosen images, after all were seen."""
        return self.choice.whole()

    @torch.no_grad()
    def fields(self) -> dict[str, Any]:
        """`backgrounds`; left out where no two images with an object are of different classes."""
        context, labels = self.context, self.stored["labels"]
        if len(labels.unique()) < 2:
            return {}
        partner = draw_partners(self.stored["index"], labels, seed=context.seed).other_class
        parts = torch.arange(len(labels), device=labels.device).split(context.batch_size)
        filled = torch.cat([self._filled(i) for i in parts])  # [n,3,S,S]
        rows = []
        for i in parts:
            context.tick(self.title, len(i))
            backgrounds = (filled[i], filled[partner[i]], self._noise(i))
            inside = (self.stored["objects"][i] == 1)[:, None]
            seen = [torch.where(inside, self.stored["pixels"][i], one) for one in backgrounds]
            right = [self._predict(one) == labels[i] for one in (*seen, filled[i])]
            rows.append(torch.stack([self.stored["right"][i], *right], dim=1))
        percent = 100 * torch.cat(rows).double()  # [n,5]
        errors, alone = 100 - percent[:, :4], percent[:, 4:]
        lost = errors[:, 2:3] - errors[:, 1:2]
        estimates = mean_estimates(torch.cat([errors, alone, lost], dim=1), seed=context.seed)
        chance = 100 * guessing(labels)
        return {"backgrounds": Backgrounds(len(labels), self.without, chance, *estimates)}

    def _filled(self, i: Tensor) -> Tensor:
        """The backgrounds alone. A pixel that may belong to the object belongs to the hole."""
        holes = self.stored["objects"][i] != 0
        return fill_hole(self.stored["pixels"][i].float(), holes).round().byte()

    def _noise(self, i: Tensor) -> Tensor:
        """Independent uniform pixels."""
        pixels = self.stored["pixels"][i]
        count = 1 + pixels[0].numel()  # the first number chooses the image
        words = random_words(self.context.seed, Stream.BACKGROUND, self.stored["index"][i], count)
        return (words[:, 1:] & 255).byte().view_as(pixels)

    def _predict(self, pixels: Tensor) -> Tensor:
        model = self.context.model
        return model(model.preprocessing.normalise(pixels), deterministic=True).logits.argmax(1)

    @staticmethod
    def tables(studies: Mapping[str, Study]) -> list[Table]:
        """Errors by background, and the accuracy without the object."""
        rows = [
            {
                "run": label,
                "images": f"{found.images:,.0f}",
                "error % as it is": found.own.format(),
                "own background, filled": found.filled.format(),
                "another class's": found.other.format(),
                "lost, points": found.lost.format(to=" to ", sign="+"),
                "noise": found.noise.format(),
                "background alone: accuracy %": found.alone.format(),
                "most frequent class %": f"{found.chance:.1f}",
            }
            for label, study in studies.items()
            if (found := study.backgrounds)
        ]
        note = (
            "The error with the object, cut out by its ground-truth mask, on other backgrounds. "
            "The hole is filled from its surroundings; on its own filled background the object "
            "shows what cutting and filling cost. Lost: the error on the background of another "
            "class minus that one, paired by image. A decision that rests on the object loses "
            "little, and does no better than guessing on the background alone."
        )
        return [table_of("Does the decision rest on the background?", rows, note)]
