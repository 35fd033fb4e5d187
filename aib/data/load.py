"""`load`: the ImageSet of a name such as `shapes:size=small` or `folder:photos`."""

import inspect
import re
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from aib.config.validation import check_seed, describe, reject_unknown
from aib.data import folder, official, shapes
from aib.data.imageset import SMALL_SIDE, ImageSet
from aib.data.preprocessing import Preprocessing
from aib.data.specs import SPECS, spec_of
from aib.data.split import recorded_split, stratified_split
from aib.errors import AibError, first_line

READERS: dict[str, Callable[..., ImageSet]] = {
    "shapes": shapes.read,
    "cifar10": official.read_cifar10,
    "cifar100": official.read_cifar100,
    "svhn": official.read_svhn,
    "stl10": official.read_stl10,
    "cub200": official.read_cub,
    "pets": official.read_pets,
    "folder": folder.read,
}


def load(
    name: str,
    split: str = "train",
    *,
    root: str | Path | None = None,
    seed: int = 0,
    holdout: float = 0.1,
    held_out: Collection[str | int] | None = None,
    preprocessing: Preprocessing | None = None,
    **options: Any,
) -> ImageSet:
    """Load the images of one split.

    name: a known data set, `shapes_spurious`, or `folder:PATH`, with options after a
        colon: `shapes:clutter=0.5,size=small`, `cub200:crop`, `folder:photos:image_size=96`.
    split: `train`, `test`, or `val` (a folder's own, or a seeded, stratified part of `train`).
    seed: of the held-out part and of generated training images; test images do not depend on it.
    holdout: the share of `train` that is held out; with 0 `train` is complete.
    held_out: the keys (`ImageSet.keys`) of the images that a run held out; then `holdout` and
        `seed` do not choose them.
    preprocessing: of the model that takes the images: its size and resizing count, not those named.
    options: the same as after the colon; those in the name take precedence.
    """
    kind, path, named = parse_name(name)
    options = options | named
    image_size = options.pop("image_size", None)
    check_seed(seed)
    has_val = kind == "folder" and folder.has_split(path, "val")
    if kind == "folder":
        fixed: dict[str, Any] = {"path": path}
    else:
        fixed = {"seed": seed} if kind == "shapes" else {"root": root}
        reject_unknown([split], [*SPECS[kind].sizes, "val"], f"{kind} has no split")
    official = "train" if split == "val" and not has_val else split
    given = _checked_options(kind, fixed, options)
    try:
        dataset = READERS[kind](official, **fixed, **given)
    except (ValueError, LookupError, RuntimeError, TypeError) as error:  # a damaged table
        reason = first_line(error)
        raise AibError(f"the files of {kind} are damaged ({reason}): fetch it again") from error
    if split in ("train", "val") and not has_val:
        if held_out is not None:
            parts = recorded_split(dataset, held_out)
        else:
            parts = stratified_split(dataset.labels, holdout, seed, dataset.class_names)
        indices = parts[0] if split == "train" else parts[1]
        if not len(indices):
            raise AibError(f"no images of {name} are in '{split}': check holdout")
        part = dataset if len(indices) == len(dataset) else dataset.subset(indices)
        dataset = replace(part, split=split)
    policy = dataset.preprocessing
    if image_size is not None:
        policy = replace(policy, image_size=_convert("image_size", image_size, int))
    dataset = dataset.prepared_for(preprocessing or policy)  # resized once, then in memory
    largest = max(policy.image_size, dataset.preprocessing.image_size)
    return dataset.in_memory() if largest <= SMALL_SIDE else dataset


def has_split(name: str, split: str) -> bool:
    """Whether the data set has this split. A flat folder of classes has only `train`."""
    kind, path, _ = parse_name(name)
    return folder.has_split(path, split) if kind == "folder" else split in SPECS[kind].sizes


def count_images(name: str) -> int:
    """How many training images a folder has, with unreadable ones."""
    return folder.count_images(parse_name(name)[1])


def with_size(name: str, image_size: int) -> str:
    """The name of a folder with images of this size, unless it names one."""
    named = "image_size" in parse_name(name)[2]
    return name if named else _with_option(name, f"image_size={image_size}")


def with_distill(name: str, distill: float | None) -> tuple[str, float]:
    """The data of a student, and the teacher's weight: by default 1 without labels, else 0.5.

    With a weight of 1 the name of a folder says that its images have no labels.
    """
    kind, path, options = parse_name(name)
    if kind != "folder":
        return name, 0.5 if distill is None else distill
    unlabelled = not _convert("labels", options.get("labels", "yes"), bool)
    if distill is None:
        distill = 1.0 if unlabelled or not folder.has_classes(path) else 0.5
    if distill == 1 and not unlabelled:
        name = _with_option(name, "labels=no")
    return name, distill


def _with_option(name: str, option: str) -> str:
    return f"{name}{',' if parse_name(name)[2] else ':'}{option}"


def same_images(name: str, other: str) -> bool:
    """Whether two names mean the same images with the same labels, in whatever size or part.

    Users' own are compared without their options.
    """
    (kind, path, options), (other_kind, other_path, others) = parse_name(name), parse_name(other)
    if kind == other_kind == "folder":
        return path.resolve() == other_path.resolve()
    same = {"image_size", "crop"}  # options that change neither
    asked, known = ({k: v for k, v in o.items() if k not in same} for o in (options, others))
    return (kind, asked) == (other_kind, known)


def parse_name(name: str) -> tuple[str, Path, dict[str, str]]:
    """(kind, path of a folder, options): 'shapes:size=small' -> ('shapes', Path(), {...})"""
    kind, _, text = name.partition(":")
    if kind == "folder":
        # A last part that starts with `word=` holds options; the path may contain colons.
        match = re.fullmatch(r"(.+?)(?::(\w+=[^:/\\]*))?", text.strip())
        if match is None:
            raise AibError("folder: needs a path, as in folder:photos")
        return kind, Path(match[1]).expanduser(), _parse_options(match[2] or "")
    options = _parse_options(text)
    if kind == "shapes_spurious":
        kind, options = "shapes", options | {"spurious": "true"}
    return spec_of(kind).name, Path(), options


def _parse_options(text: str) -> dict[str, str]:
    """'clutter=0.5,spurious' -> {'clutter': '0.5', 'spurious': 'true'}"""
    pairs = [piece.partition("=") for piece in text.split(",") if piece]
    return {key.strip(): value.strip() if equals else "true" for key, equals, value in pairs}


def _checked_options(kind: str, fixed: Collection[str], options: dict[str, Any]) -> dict[str, Any]:
    """Convert options to the types of the reader's defaults; an unknown option is an error."""
    parameters = inspect.signature(READERS[kind]).parameters.values()
    defaults = {
        p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in fixed
    }
    reject_unknown(options, [*defaults, "image_size"], f"{kind} has no option")
    kinds = {key: int if value is None else type(value) for key, value in defaults.items()}
    return {key: _convert(key, value, kinds[key]) for key, value in options.items()}


def _convert(key: str, value: Any, kind: type) -> Any:
    if not isinstance(value, str):
        return value
    booleans = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    try:
        return booleans[value.lower()] if kind is bool else kind(value)
    except (KeyError, ValueError) as error:
        raise AibError(f"option {key} must be {describe(kind)}, not '{value}'") from error
