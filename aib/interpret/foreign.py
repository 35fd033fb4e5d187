"""Any classifier and any data set, as the measurements take them."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from aib.classifier import Classifier, evaluating
from aib.data import Batches, ImageSet
from aib.errors import AibError
from aib.interpret.metrics.checks import class_logits
from aib.interpret.posthoc import class_scores
from aib.preprocessing import Preprocessing
from aib.types import Given, Output, Sampling

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
    """The model as a Classifier, and the data in batches prepared for it.

    `preprocessing` is that of a network which is no aib model; by default the data's.
    """
    if not isinstance(data, Batches | ImageSet):
        raise AibError(
            "a study needs an aib.data.ImageSet (such as load(...) or ImageSet.from_tensors(...)) "
            f"or Batches of one, not a {type(data).__name__}"
        )
    images = data if isinstance(data, ImageSet) else data.data
    if isinstance(model, Classifier):
        if preprocessing is not None:
            raise AibError("an aib model has a preprocessing of its own: leave out preprocessing=")
        policy = model.preprocessing
    else:
        policy = preprocessing or images.preprocessing
    if isinstance(data, ImageSet):
        device = next((p.device for p in model.parameters()), torch.device("cpu"))
        data = Batches(images.prepared_for(policy), BATCH_SIZE, device=device)
    elif images.preprocessing.image_size != policy.image_size:
        raise AibError(
            f"the batches hold images of {images.preprocessing.image_size} pixels and the model "
            f"takes {policy.image_size}: give the ImageSet instead, which is then resized"
        )
    if isinstance(model, Classifier):
        return model, data
    count = count_classes(model, policy.normalise(next(iter(data.sample(1, 0))).images))
    if count != images.num_classes:
        raise AibError(f"the model has {count} classes and the data {images.num_classes}")
    names = policy.class_names or images.class_names
    return ForeignClassifier(model, count, replace(policy, class_names=names)), data


def count_classes(network: nn.Module, x: Tensor) -> int:
    """The number of classes of a network, from its logits of normalised images."""
    with evaluating(network), torch.no_grad():
        return class_logits(network(x), len(x)).shape[1]
