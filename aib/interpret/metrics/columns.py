"""Values of images, collected batch by batch: of all of them, or of a random choice."""

import torch
from torch import Tensor

from aib.interpret.metrics.seeded import Stream, random_words

CHOSEN = 2048  # images at most, of a random choice: their pixels stay in memory


class Columns:
    """Values [B,...] of batches by name."""

    def __init__(self) -> None:
        self.parts: dict[str, list[Tensor]] = {}

    def add(self, **values: Tensor) -> None:
        """Add a batch."""
        for name, value in values.items():
            self.parts.setdefault(name, []).append(value)

    def whole(self) -> dict[str, Tensor]:
        """The values of all batches, [N,...] by name."""
        return {name: torch.cat(parts) for name, parts in self.parts.items()}


class RandomChoice(Columns):
    """The images of the lowest random words, in the order in which they came."""

    def __init__(self, seed: int, stream: Stream) -> None:
        super().__init__()
        self.seed, self.stream = seed, stream

    def add(self, **values: Tensor) -> None:
        """Add a batch; `index` [B] says which images these are."""
        super().add(**values)
        if sum(map(len, self.parts["index"])) > 2 * CHOSEN:
            self.parts = {name: [chosen] for name, chosen in self.whole().items()}

    def whole(self) -> dict[str, Tensor]:
        """The values of the chosen images."""
        values = super().whole()
        words = random_words(self.seed, self.stream, values["index"], 1)[:, 0]
        keep = words.argsort()[:CHOSEN].sort().values
        return {name: value[keep] for name, value in values.items()}
