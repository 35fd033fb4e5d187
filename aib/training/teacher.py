"""A teacher: a trained classifier whose probabilities on whole images are a student's targets.

    L = (1 - d) nll + d KL(teacher || student) + the other terms

Its gradient is that of the cross-entropy with (1 - d) label + d teacher; the values differ by d
times the teacher's entropy.
"""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from aib.data import Batches, ImageSet
from aib.data.batches import default_batch
from aib.data.preprocessing import Preprocessing
from aib.data.specs import IMAGENET_MEAN, IMAGENET_STD, class_names
from aib.errors import AibError, first_line
from aib.evaluation.matching import match_names
from aib.models.backbones.propose import open_fully
from aib.models.classifier import Classifier
from aib.models.gaussian import widen
from aib.models.modes import seeded_evaluation
from aib.models.weights import unique_tensors
from aib.system.progress import Tick, silent
from aib.training.warm_start import start_from

DEFAULT = Preprocessing(224, "squash", IMAGENET_MEAN, IMAGENET_STD)  # of a network that has none


class Teacher(nn.Module):
    """A copy of a network, never trained, that gives targets for a student's images.

    distill: weight d of the teacher beside the labels.
    preprocessing: size, mean, std and class names of the network; by default its attribute of this
        name.
    """

    def __init__(
        self, network: nn.Module, distill: float = 1, preprocessing: Preprocessing | None = None
    ):
        super().__init__()
        self.network = deepcopy(network).cpu().eval().requires_grad_(False)
        self.distill = distill
        own = getattr(network, "preprocessing", None)
        policy = preprocessing or (own if isinstance(own, Preprocessing) else DEFAULT)
        with seeded_evaluation(self.network):
            x = torch.zeros(1, 3, policy.image_size, policy.image_size)
            classes = logits_of(self.network(x)).shape[1]
        names = policy.class_names or class_names(classes)
        if len(names) != classes:
            raise AibError(f"the teacher has {classes} classes and {len(names)} names")
        self.preprocessing = replace(policy, class_names=names)
        # From the student's x to the teacher's. Made once: a copy to a GPU waits for it.
        self.scale, self.shift = nn.Buffer(torch.ones(3, 1, 1)), nn.Buffer(torch.zeros(3, 1, 1))

    def train(self, mode: bool = True) -> "Teacher":
        """Nothing: a teacher stays in evaluation mode, whatever contains it."""
        return self

    def watch(self, student: Preprocessing) -> None:
        """Expect images that are normalised for the student."""
        (mean, std), (own_mean, own_std) = student.statistics(), self.preprocessing.statistics()
        self.scale.copy_(std / own_std)
        self.shift.copy_((mean - own_mean) / own_std)

    @torch.no_grad()
    def forward(self, x: Tensor, y: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities to learn [B,C], and the classes [B] that count as right.

        labels: y, or probabilities made from it. With a weight of 1 both results are the teacher's.
        """
        x, side = x * self.scale + self.shift, self.preprocessing.image_size
        if x.shape[2:] != (side, side):
            x = F.interpolate(x, (side, side), mode="bilinear", antialias=True)
        found = widen(logits_of(self.network(x))).softmax(-1)
        if self.distill == 1:
            return found, found.argmax(-1)
        if not labels.is_floating_point():
            labels = F.one_hot(labels, found.shape[1])
        return (1 - self.distill) * labels + self.distill * found, y

    def start(self, model: Classifier) -> str:
        """Start the model from the teacher's weights if they fit; describe what was done."""
        weights, own = unique_tensors(self.network), self.preprocessing
        if not isinstance(self.network, Classifier):  # by the names of an attached one
            head = f"{model.recipe.get('head')}."
            weights = {
                f"head.{n.removeprefix(head)}" if n.startswith(head) else f"tail.{n}": value
                for n, value in weights.items()
            }
        try:
            loaded = start_from(model, weights, Path("teacher"))
        except AibError as error:
            return f"its weights are not those to start from: {first_line(error)}"
        model.preprocessing = replace(model.preprocessing, mean=own.mean, std=own.std)
        if any(name.startswith("propose.") for name in loaded.fresh):
            open_fully(model)
        return str(loaded)

    def relabel(self, images: ImageSet) -> ImageSet:
        """The images with the teacher's classes; without labels if theirs are others."""
        names = self.preprocessing.class_names
        policy = replace(images.preprocessing, class_names=names)
        index = torch.tensor(match_names(names, images.class_names))
        labelled = images.labelled and bool((index >= 0).all())
        if not labelled and self.distill < 1:
            raise AibError(
                f"the classes of {images.name} are not the teacher's: --distill 1 ignores them"
            )
        labels = index[images.labels] if labelled else torch.zeros_like(images.labels)
        return replace(images, labels=labels, preprocessing=policy, labelled=labelled)

    def label(
        self, images: ImageSet, workers: int = 0, tick: Tick = silent
    ) -> tuple[ImageSet, Tensor]:
        """The images, labelled by the teacher if they have no labels; its probabilities [N,C]."""
        whole = images.prepared_for(replace(self.preprocessing, resize=images.preprocessing.resize))
        size = default_batch(self.shift.device, whole.preprocessing.image_size, samples=1)
        batches = Batches(whole, size, device=self.shift.device, workers=workers)
        found = []
        with seeded_evaluation(self.network):
            for x, _ in batches.epoch(0):
                found.append(logits_of(self.network(x)).softmax(-1).cpu())
                tick("asking the teacher", len(x))
        likely = torch.cat(found)
        return images if images.labelled else replace(images, labels=likely.argmax(-1)), likely


def logits_of(output: object) -> Tensor:
    """The logits [B,C] in a network's output: itself, or its attribute `logits`."""
    logits = getattr(output, "logits", output)
    if not isinstance(logits, Tensor) or logits.dim() != 2:
        raise AibError("a teacher must return logits [B, C], or an output with such `logits`")
    return logits
