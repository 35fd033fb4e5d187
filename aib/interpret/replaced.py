"""What becomes of the decisions when the model's own map or mask is replaced."""

from collections.abc import Iterator
from dataclasses import replace

from torch import Tensor

from aib.data import Batch, Batches
from aib.interpret.maps import own_maps
from aib.interpret.metrics.encoding import Encoding, map_encoding
from aib.interpret.metrics.mask_use import MaskUse, mask_use
from aib.interpret.metrics.reliance import Reliance, map_reliance
from aib.interpret.metrics.swap import swap_maps
from aib.models.classifier import Classifier
from aib.models.masked import Masked
from aib.system.progress import Tick, silent

NO_MAP_TO_REPLACE = "not measured: the model has no single attention map that could be replaced"


def replace_maps(
    model: Classifier, feed: Batches, seed: int = 0, *, objects: bool = True, tick: Tick = silent
) -> tuple[Reliance | str, Encoding | None]:
    """Whether the decision uses the map, and whether the map gives the class away.

    A sentence and None where the model has no map to replace. `masks`: compare the map with the
    ground-truth masks, where the data have them.
    """
    if not model.takes_map:
        return NO_MAP_TO_REPLACE, None

    def batches() -> Iterator[Batch]:
        for batch in _normalised(model, feed, "replaced maps", tick):
            yield batch if objects else replace(batch, objects=None)

    def predict(x: Tensor, attention_map: Tensor | None) -> Tensor:
        return model(x, deterministic=True, attention_map=attention_map).logits

    def applied(x: Tensor) -> Tensor:
        return model.applied_map(own_maps(model, x))

    decisions = swap_maps(predict, applied, batches, seed=seed)
    return map_reliance(decisions, masked=model.takes_mask), map_encoding(decisions, seed=seed)


def measure_mask(
    model: Classifier, feed: Batches, seed: int, tick: Tick = silent
) -> MaskUse | None:
    """Whether closed means closed; None for a model without a mask of its own."""
    if not isinstance(model, Masked) or not model.takes_map:  # it may only take masks
        return None
    batches = _normalised(model, feed, "changed masks", tick)
    return mask_use(model, ((batch.images, batch.labels) for batch in batches), seed=seed)


def _normalised(model: Classifier, feed: Batches, what: str, tick: Tick) -> Iterator[Batch]:
    """The batches as the model takes them, with progress."""
    for batch in feed:
        yield replace(batch, images=model.preprocessing.normalise(batch.images))
        tick(what, len(batch.images))
