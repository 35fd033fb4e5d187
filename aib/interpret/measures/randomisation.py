"""Does the map depend on what was learnt? Its change when layers become random."""

from typing import Any

import torch
from torch import Tensor

from aib.interpret.maps import own_maps
from aib.interpret.measure import Context, Measure, View
from aib.interpret.metrics.sanity import randomise_layers

IMAGES = 64  # at most: it copies and runs the model often


class RandomisationMeasure(Measure):
    """`randomise_layers` on the first images of the subset."""

    title = "random layers"
    needs = frozenset({"maps"})
    subset = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.x: list[Tensor] = []

    def update(self, view: View) -> None:
        """Store the images."""
        if view.first < IMAGES:
            self.x.append(view.x)

    def fields(self) -> dict[str, Any]:
        """`randomised_layers`; in full precision, as random layers may leave little contrast."""
        x = torch.cat(self.x)[:IMAGES]
        changes = randomise_layers(self.context.model, own_maps, x, seed=self.context.seed)
        return {"randomised_layers": tuple(changes)}
