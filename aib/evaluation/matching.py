"""The classes of a data set as those of a model: the same, matched by name, or by their index."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from aib.data import ImageSet
from aib.data.specs import imagenet_classes
from aib.errors import AibError
from aib.models.classifier import Classifier

CIFAR10_NAME = {"car": "automobile"}  # the one class of STL-10 with another name in CIFAR-10


def prepare_images(model: Classifier, data: ImageSet) -> tuple[Any, ImageSet]:
    """The images as the model takes them, with its labels; and how the classes were matched."""
    policy = model.preprocessing
    images = data.prepared_for(policy)
    if policy.class_names:
        found = dict(match_classes(model, images))
        how = next(name for name in ("own", "matched", "raw") if name in found)
        return how, found[how]
    if data.num_classes > model.num_classes:
        raise AibError(f"the data has {data.num_classes} classes and the model {model.num_classes}")
    return "own", images


def match_classes(model: Classifier, data: ImageSet) -> list[tuple[Any, ImageSet]]:
    """Relabel a data set with the model's classes; returns (how, data) pairs.

    "own": the class names are the same, nothing changes. "raw": equally many classes under other
    names (CIFAR-10 and STL-10), whose indices are used as they are; not for the same names in
    another order. "matched": classes with a shared name; images of other classes are left out.
    ImageNet's classes may also be their WordNet numbers and, for a model with all of them, indices.
    """
    names, theirs = model.preprocessing.class_names, data.class_names
    if not names and len(theirs) == model.num_classes:
        return [("own", data)]
    index = match_names(names, theirs)
    if index == list(range(model.num_classes)):
        return [("own", data)]
    found: list[tuple[Any, ImageSet]] = []
    same = sorted(index) == list(range(model.num_classes))  # the same classes in another order
    if len(theirs) == model.num_classes and not same:
        found.append(("raw", data))
    if max(index, default=-1) >= 0:
        labels = torch.tensor(index)[data.labels]
        keep = (labels >= 0).nonzero().flatten()
        if len(keep):
            subset = data.subset(keep)
            policy = replace(subset.preprocessing, class_names=names)
            found.append(("matched", replace(subset, labels=labels[keep], preprocessing=policy)))
    if not found:
        raise AibError(
            f"the model's {model.num_classes} classes do not fit {data.name}: it has {len(theirs)} "
            "classes and no name in common"
        )
    return found


def match_names(names: Sequence[str], others: Sequence[str]) -> list[int]:
    """The position in `names` of each of the other class names; -1 where there is none.

    ImageNet is often listed with "Cardigan" and "cardigan", where the same spelling decides, and
    with "crane" twice, which cannot be told apart.
    """
    wordnet = imagenet_classes()
    numbers = dict(enumerate(wordnet.values())) if len(names) == len(wordnet) else {}
    if set(numbers.values()) == set(names):
        others = [numbers.get(int(name), name) if name.isdecimal() else name for name in others]
    ours, theirs = (
        [canonical(wordnet.get(name, name)) for name in spelled] for spelled in (names, others)
    )
    if ours == theirs:
        return list(range(len(names)))
    index = [-1] * len(theirs)
    for known, asked in ((ours, theirs), (names, others)):  # the spelling decides where both match
        times, wanted = Counter(known), Counter(asked)
        only = {name: i for i, name in enumerate(known) if times[name] == 1 == wanted[name]}
        index = [only.get(name, i) for name, i in zip(asked, index, strict=True)]
    return index


def canonical(name: str) -> str:
    """One spelling per class: lower case, underscores, CIFAR-10's name."""
    word = name.lower().replace(" ", "_")
    return CIFAR10_NAME.get(word, word)
