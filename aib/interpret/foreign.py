"""Any classifier and any data set, as the measurements take them."""

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from aib.data import Batches, ImageSet, as_images
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError
from aib.evaluation.matching import match_classes, prepare_images
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
    model: nn.Module, data: Batches | ImageSet | Dataset, preprocessing: Preprocessing | None = None
) -> tuple[Classifier, Batches]:
    """The model as a Classifier, and the data in batches prepared for it, with its labels.

    `preprocessing` is that of a network which is no aib model; by default the data's. Classes are
    matched by name, as in `aib.evaluate`.
    """
    model = getattr(model, "_orig_mod", model)  # a compiled one: hooks and copies need its layers
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    known = data.data if isinstance(data, Batches) else data if isinstance(data, ImageSet) else None
    if not isinstance(model, Classifier):
        policy = preprocessing or (known.preprocessing if known else None)
        if policy is None:
            raise AibError("a Dataset needs preprocessing=, as aib.Preprocessing")
        model = _as_classifier(model, known, policy, device)
    elif preprocessing is not None:
        raise AibError("an aib model has a preprocessing of its own: leave out preprocessing=")
    if isinstance(data, Batches):
        if not _fits(model, data.data):
            raise AibError("the model takes other images or classes: give the ImageSet instead")
        return model, data
    images = known or as_images(data, model.preprocessing, model.num_classes)
    return model, Batches(prepare_images(model, images)[1], BATCH_SIZE, device=device)


def _fits(model: Classifier, images: ImageSet) -> bool:
    """Whether size and order of classes, as they are in batches, are the model's."""
    policy = model.preprocessing
    if images.preprocessing.image_size != policy.image_size:
        return False
    return not policy.class_names or "matched" not in dict(match_classes(model, images))


def _as_classifier(
    network: nn.Module, images: ImageSet | None, policy: Preprocessing, device: torch.device
) -> Classifier:
    """A network that is no aib model, with as many classes as the data."""
    side = policy.image_size
    with evaluating(network), torch.no_grad():
        logits = class_scores(network(torch.zeros(1, 3, side, side, device=device)), 1)
    if bool((logits >= 0).all() and (logits.sum() - 1).abs() < 1e-3):
        raise AibError("the network gives probabilities, not logits: leave out its softmax")
    count, names = logits.shape[1], policy.class_names
    if images is not None:
        if count != images.num_classes:
            raise AibError(f"the model has {count} classes and the data {images.num_classes}")
        names = names or images.class_names
    return ForeignClassifier(network, count, replace(policy, class_names=names))
