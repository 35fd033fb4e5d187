"""Any classifier and any data set, as the measurements take them."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from aib.data import Batches, ImageSet
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError, first_line
from aib.evaluation.matching import match_classes, prepare_images
from aib.interpret.metrics.checks import class_logits
from aib.interpret.posthoc import class_scores
from aib.models.classifier import Classifier
from aib.models.modes import evaluating
from aib.models.types import Given, Output, Sampling

BATCH_SIZE = 64


class ForeignClassifier(Classifier):
    """A network that gives logits [B,C], or an object that has them as `.logits`."""

    def __init__(self, network: nn.Module, num_classes: int, preprocessing: Preprocessing):
        super().__init__(num_classes, preprocessing=preprocessing)
        self.network = network

    def decide(self, x: Tensor, sampling: Sampling, given: Given) -> Output:
        """The network's logits; it has no map of its own."""
        return Output(class_scores(self.network(x), len(x))[None, None])  # [1,1,B,C]


def prepare(
    model: nn.Module, data: Batches | ImageSet, preprocessing: Preprocessing | None = None
) -> tuple[Classifier, Batches]:
    """The model as a Classifier, and the data in batches prepared for it, with its labels.

    `preprocessing` is that of a network which is no aib model; by default the data's. Classes are
    matched by name, as in `aib.evaluate`.
    """
    if not isinstance(data, Batches | ImageSet):
        raise AibError(
            "a study needs an aib.data.ImageSet (such as load(...) or ImageSet.from_tensors(...)) "
            f"or Batches of one, not a {type(data).__name__}"
        )
    model = getattr(model, "_orig_mod", model)  # a compiled one: hooks and copies need its layers
    images = data if isinstance(data, ImageSet) else data.data
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    if not isinstance(model, Classifier):
        model = _as_classifier(model, images, preprocessing or images.preprocessing, device)
    elif preprocessing is not None:
        raise AibError("an aib model has a preprocessing of its own: leave out preprocessing=")
    policy = model.preprocessing
    if isinstance(data, ImageSet):
        return model, Batches(prepare_images(model, images)[1], BATCH_SIZE, device=device)
    if images.preprocessing.image_size != policy.image_size:
        raise AibError(
            f"the batches hold images of {images.preprocessing.image_size} pixels and the model "
            f"takes {policy.image_size}: give the ImageSet instead, which is then resized"
        )
    if policy.class_names and "matched" in dict(match_classes(model, images)):
        raise AibError(
            "the labels of the batches are not the model's, whose classes are others or in another "
            "order: give the ImageSet instead, whose classes are then matched by name"
        )
    return model, data


def _as_classifier(
    network: nn.Module, images: ImageSet, policy: Preprocessing, device: torch.device
) -> Classifier:
    """A network that is no aib model, with as many classes as the data."""
    first = images.subset(torch.arange(1)).prepared_for(policy).pixels(0)
    count = count_classes(network, policy.normalise(first[None].to(device)))
    if count != images.num_classes:
        raise AibError(f"the model has {count} classes and the data {images.num_classes}")
    names = policy.class_names or images.class_names
    return ForeignClassifier(network, count, replace(policy, class_names=names))


def count_classes(network: nn.Module, x: Tensor) -> int:
    """The number of classes of a network, from its logits of normalised images."""
    with evaluating(network), torch.no_grad():
        try:
            result = network(x)
        except (RuntimeError, TypeError, ValueError, AssertionError) as error:
            raise AibError(
                f"{x.dtype} images {list(x.shape)} do not pass the network ({first_line(error)})"
            ) from error
    logits = class_logits(result, len(x))
    if bool((logits >= 0).all() and ((logits.sum(1) - 1).abs() < 1e-3).all()):
        raise AibError(
            "the network gives probabilities, not logits: leave out its softmax, or wrap it so "
            "that it gives their logarithm"
        )
    return logits.shape[1]
