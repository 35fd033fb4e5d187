"""A user's own data in Python: what `aib.fit` and `aib.evaluate` take beside an ImageSet."""

import operator
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, SequentialSampler, Subset

from aib.data.imageset import SMALL_SIDE, ImageItems, ImageSet
from aib.errors import AibError, AibWarning
from aib.preprocessing import Preprocessing

TAKEN = (
    "an aib.data.ImageSet, a map-style Dataset with items (image, label), or a DataLoader with "
    "batches (normalised images, labels)"
)
COLUMNS = {"image": ("image", "img", "pixel_values"), "label": ("label", "labels")}
FEATURES = {"image": "Image", "label": "ClassLabel"}  # their types in the package `datasets`


@dataclass(frozen=True)
class Prepared:
    """Batches of tensors that are normalised already: they are given to the model as they are.

    In training an incomplete last batch is dropped, as in `Batches`.
    """

    loader: DataLoader
    columns: tuple[Any, Any]  # where a batch has its images and its labels
    preprocessing: Preprocessing  # mean and std are empty if they are unknown
    num_classes: int
    batch_size: int
    train: bool = False
    seed: int | None = None  # of the order, if the loader is ours
    device: torch.device | str = "cpu"
    name: str = "custom"
    split: str = "test"

    @property
    def num_images(self) -> int:
        return len(self.loader.sampler)  # type: ignore[arg-type]

    @property
    def in_order(self) -> bool:
        """Whether every epoch has the images in the same order."""
        return isinstance(self.loader.sampler, SequentialSampler)

    def __len__(self) -> int:
        """Number of batches per epoch."""
        return self.num_images // self.batch_size if self.train else len(self.loader)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """x float32 [B,3,S,S] and y int64 [B] from step `start` of the epoch on.

        The batches before `start` are read and dropped.
        """
        if self.seed is not None:
            mixed = np.random.SeedSequence([self.seed, epoch]).generate_state(1)[0]
            self.loader.generator.manual_seed(int(mixed))
        for batch in islice(self.loader, start, len(self)):
            x, y = (batch[column] for column in self.columns)
            self._check(x, y)
            # A copy: the training may overwrite it.
            yield x.to(self.device, torch.float32, copy=True), y.to(self.device, torch.int64)

    def _check(self, x: Any, y: Any) -> None:
        side = self.preprocessing.image_size
        if not (isinstance(x, Tensor) and list(x.shape[1:]) == [3, side, side] and len(x)):
            raise AibError(
                f"batches must have images [B,3,{side},{side}] like the first one, not {_kind(x)}"
            )
        if not isinstance(y, Tensor) or y.shape != x.shape[:1] or y.is_floating_point():
            raise AibError(f"batches must have labels [B] of an integer type, not {_kind(y)}")
        low, high = int(y.min()), int(y.max())
        if low < 0 or high >= self.num_classes:
            raise AibError(
                f"the data has labels from {low} to {high}, and the model {self.num_classes} "
                f"classes, 0 to {self.num_classes - 1}"
            )
        if self.train and len(x) != self.batch_size:
            raise AibError(f"every training batch must have {self.batch_size} images, not {len(x)}")


def adapt(
    data: Any,
    model: Preprocessing,
    num_classes: int,
    *,
    batch_size: int,
    train: bool = False,
    preprocessing: Preprocessing | None = None,
    workers: int = 0,
    seed: int = 0,
) -> ImageSet | Prepared:
    """What a user gives, as an ImageSet or as batches of tensors that are used as they are.

    model: preprocessing of the model, which pixels are resized and normalised by.
    preprocessing: what the user says: for pixels instead of the model's, for tensors how they were
        made; without it a `Normalize` in the data set's `transform` is read, if there is one.
    """
    data = _part(data)
    if isinstance(data, ImageSet):
        return data if preprocessing is None else data.prepared_for(preprocessing)
    if isinstance(data, Prepared):
        return data
    options: dict[str, Any] = {"num_classes": num_classes, "train": train, "model": model}
    if isinstance(data, DataLoader):
        if data.batch_size is None or isinstance(data.dataset, IterableDataset):
            raise AibError(
                "a DataLoader needs a map-style data set and a batch_size, and this one has "
                + ("no batch_size" if data.batch_size is None else "an iterable data set")
            )
        return _prepared(data, preprocessing, batch_size=data.batch_size, **options)
    other = isinstance(data, str | Mapping | Tensor | np.ndarray | IterableDataset)
    if other or not hasattr(data, "__getitem__") or not hasattr(data, "__len__"):
        raise AibError(f"the data must be {TAKEN}, not a {type(data).__name__}")
    item = _first(data)
    image = item[find_columns(data, item)[0]]
    if not (isinstance(image, Tensor) and image.is_floating_point()):
        policy = preprocessing or model
        return from_dataset(data, policy, num_classes, split="train" if train else "test")
    loader: DataLoader = DataLoader(
        data, batch_size, shuffle=train, num_workers=workers, generator=torch.Generator()
    )
    return _prepared(loader, preprocessing, batch_size=batch_size, seed=seed, **options)


def _part(data: Any) -> Any:
    """A Subset of an ImageSet, as random_split makes, as an ImageSet; other data as they are."""
    if isinstance(data, Subset) and isinstance(whole := _part(data.dataset), ImageSet):
        return whole.subset(torch.as_tensor(data.indices).long())
    return data


def from_dataset(
    dataset: Any,
    preprocessing: Preprocessing,
    num_classes: int | None = None,
    *,
    split: str = "train",
    name: str = "custom",
    image: str = "",
    label: str = "",
) -> ImageSet:
    """An ImageSet of a map-style data set whose images are PIL images or uint8 pixels.

    Small images are read into memory, unless the data set has a `transform`, which may be random;
    others are read on access. `image` and `label` are the columns of a Hugging Face data set; by
    default they are found by the types of its features. Labels that are text are the names of
    classes: those of `preprocessing` if they are among them, else in alphabetical order.
    """
    columns = find_columns(dataset, _first(dataset), image, label)
    values = _labels(dataset, columns[1])
    if texts := {value for value in values if isinstance(value, str)}:
        if not texts <= set(preprocessing.class_names):
            preprocessing = replace(preprocessing, class_names=tuple(sorted(texts)))
        num_classes = len(preprocessing.class_names)
        indices = {name: i for i, name in enumerate(preprocessing.class_names)}
        values = [indices.get(value, value) for value in values]
    labels = torch.tensor([_integer(value) for value in values])
    count = int(labels.max()) + 1 if num_classes is None else num_classes
    names = preprocessing.class_names if len(preprocessing.class_names) == count else ()
    names = _class_names(dataset, columns[1]) or names or tuple(str(i) for i in range(count))
    policy = replace(preprocessing, class_names=names)
    items = ImageItems(dataset, columns[0], torch.arange(len(labels)))
    found = ImageSet(name, split, labels, policy, files=items)
    small = policy.image_size <= SMALL_SIDE and _inner(dataset, "transform") is None
    return found.in_memory() if small else found


def find_columns(dataset: Any, item: Any, image: str = "", label: str = "") -> tuple[Any, Any]:
    """Where an item, or a batch, has its image and its label: positions or keys."""
    if isinstance(item, Mapping):
        return _find(dataset, item, "image", image), _find(dataset, item, "label", label)
    if isinstance(item, Sequence) and not isinstance(item, str) and len(item) == 2:
        return 0, 1
    parts = f"{len(item)} parts" if isinstance(item, tuple | list) else _kind(item)
    raise AibError(f"an item of the data must be (image, label), and the first one is {parts}")


def _find(dataset: Any, item: Mapping[str, Any], what: str, given: str) -> str:
    features = getattr(dataset, "features", None) or {}
    typed = [k for k in item if type(features.get(k)).__name__ == FEATURES[what]]
    found = typed or [k for k in COLUMNS[what] if k in item]
    if given:
        found = [given] if given in item else []
    if len(found) == 1:
        return found[0]
    problem = f"{len(found)} columns" if found else f"no column '{given}'" if given else "no column"
    raise AibError(
        f"the data has {problem} for the {what}, and needs one: its columns are {', '.join(item)}"
    )


def _prepared(
    loader: DataLoader,
    given: Preprocessing | None,
    *,
    batch_size: int,
    model: Preprocessing,
    train: bool,
    **options: Any,
) -> Prepared:
    """Batches of a loader, once its first one has been looked at."""
    batch = next(iter(loader), None) if len(loader) else None
    if batch is None:
        raise AibError("the DataLoader is empty: its data set has no images")
    columns = find_columns(loader.dataset, batch)
    x = batch[columns[0]]
    if not isinstance(x, Tensor) or not x.is_floating_point():
        raise AibError(
            f"a DataLoader must give normalised floats [B,3,S,S], not {_kind(x)}: to have pixels "
            "normalised and augmented, give the data set itself"
        )
    if x.ndim != 4 or x.shape[1] != 3 or x.shape[2] != x.shape[3]:
        raise AibError(f"images must be square, [B,3,S,S], not {list(x.shape)}")
    names = _class_names(loader.dataset, columns[1])
    if not train:  # training takes over the names of the data
        _check_indices(names, model.class_names)
    policy = given or _read_transform(_inner(loader.dataset, "transform"), x.shape[-1])
    (policy if policy.mean else model).warn_of_pixels(x)
    policy = replace(policy, class_names=policy.class_names or names)
    if policy.image_size != x.shape[-1]:
        sizes = f"{policy.image_size} pixels, and the data has {x.shape[-1]}"
        raise AibError(f"preprocessing says images of {sizes}")
    return Prepared(loader, columns, policy, batch_size=batch_size, train=train, **options)


def _check_indices(names: tuple[str, ...], known: tuple[str, ...]) -> None:
    """Warn of a class that has another index in the data than in the model."""
    moved = [n for i, n in enumerate(names) if n in known and known.index(n) != i]
    if moved:
        name = moved[0]
        warnings.warn(
            f"the class {name!r} is {names.index(name)} in the data and {known.index(name)} in the "
            "model, and labels beside tensors are taken as the model's: change them, or give PIL "
            "images, whose classes are matched by name",
            AibWarning,
            stacklevel=2,
        )


def _read_transform(transform: Any, size: int) -> Preprocessing:
    """What torchvision's kind of transforms tells; mean and std stay empty without Normalize."""
    steps = list(_steps(transform))
    scales = [s for s in steps if hasattr(s, "mean") and hasattr(s, "std")]
    mean, std = (scales[-1].mean, scales[-1].std) if scales else ((), ())
    crops = any(type(s).__name__ in ("CenterCrop", "RandomResizedCrop") for s in steps)
    try:
        mean, std = (tuple(float(value) for value in each) for each in (mean, std))
        return Preprocessing(size, "crop" if crops else "squash", mean, std)
    except (AibError, TypeError, ValueError):  # of one channel, or something else of that name
        return Preprocessing(size, mean=(), std=())


def _steps(transform: Any) -> Iterator[Any]:
    inner = getattr(transform, "transforms", transform)
    if isinstance(inner, Sequence | torch.nn.Sequential):
        for step in inner:
            yield from _steps(step)
    elif transform is not None:
        yield transform


def _labels(dataset: Any, column: Any) -> list[Any]:
    """All labels; without reading the images where the data set lists them."""
    if isinstance(column, str) and getattr(dataset, "features", None):
        return list(dataset[column])
    # torchvision's data sets have `targets`, which are the labels unless they are transformed.
    targets = getattr(dataset, "targets", None)
    listed = isinstance(targets, list | Tensor) and len(targets) == len(dataset)
    if listed and getattr(dataset, "target_transform", None) is None:
        return list(dataset.targets)
    return [dataset[i][column] for i in range(len(dataset))]


def _integer(label: Any) -> int:
    try:
        return operator.index(label)  # also of numpy's integers, and tensors of one
    except TypeError as error:
        reason = f"labels must be integers, or all of them text, not {_kind(label)}"
        raise AibError(reason) from error


def _class_names(dataset: Any, column: Any) -> tuple[str, ...]:
    features = getattr(dataset, "features", None) or {}
    names = getattr(features.get(column), "names", None) or _inner(dataset, "classes")
    if not isinstance(names, list | tuple) or _changes(dataset, len(names)):
        return ()
    return tuple(str(name) for name in names)


def _changes(dataset: Any, count: int) -> bool:
    """Whether a `target_transform` makes others of the labels 0, 1, ..., which `classes` names."""
    transform = _inner(dataset, "target_transform")
    try:
        return transform is not None and any(_integer(transform(i)) != i for i in range(count))
    except Exception:  # a user's code can raise any
        return True


def _inner(dataset: Any, name: str) -> Any:
    """An attribute of the data set, or of the one that a Subset wraps."""
    while getattr(dataset, name, None) is None and hasattr(dataset, "dataset"):
        dataset = dataset.dataset
    return getattr(dataset, name, None)


def _first(dataset: Any) -> Any:
    if len(dataset) == 0:
        raise AibError("the data set is empty")
    return dataset[0]


def _kind(value: Any) -> str:
    """A value in an error message: type, and shape where it has one."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    return type(value).__name__ + (f" {value.size}" if isinstance(value, Image.Image) else "")
