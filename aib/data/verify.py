"""Compare a data set with the official one: counts, checksums, class balance, statistics."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pooch
import torch

from aib.data import folder as folders
from aib.data.files import require
from aib.data.imageset import ImageSet
from aib.data.load import load, parse_name
from aib.data.specs import SPECS, Spec
from aib.errors import AibError

SAMPLE = 500  # images decoded for the statistics of a set on disk
# Of the first 200 training images and masks of seed 0.
SHAPES_SHA256 = "eab21e52505b55c2de3019f32d6553d387ca9fd5360c74f219bd058d75b13e67"


@dataclass
class Report:
    """Facts about a data set, and how it differs from the official one."""

    name: str
    location: str
    splits: dict[str, dict[str, Any]] = field(default_factory=dict)
    checksums: dict[str, str] = field(default_factory=dict)  # file -> official or differs
    differences: list[str] = field(default_factory=list)


def verify(name: str, root: str | Path | None = None) -> Report:
    """Check all splits of a data set."""
    kind, path, _ = parse_name(name)
    if kind == "folder":
        return _verify_folder(name, path)
    spec = SPECS[kind]
    if not spec.folders:
        return _verify_shapes(name, spec)
    location = require(spec, root)
    report = Report(name, str(location))
    for split in _expected_splits(spec, location):
        _verify_split(report, spec, name, split, root)
    _verify_checksums(report, spec, location)
    if not report.splits:
        raise AibError(f"nothing of {name} can be read: {report.differences[0]}")
    return report


def shapes_sha256(dataset: ImageSet) -> str:
    """SHA-256 of the pixels, masks and labels of the first 200 images."""
    assert dataset.images is not None and dataset.masks is not None
    digest = hashlib.sha256()
    for tensor in (dataset.images, dataset.masks, dataset.labels):
        digest.update(tensor[:200].contiguous().numpy().tobytes())
    return digest.hexdigest()


def _expected_splits(spec: Spec, location: Path) -> list[str]:
    """All splits; `extra`, which few need, only if its file is there."""
    files = {archive.split: archive.file_name for archive in spec.archives}
    return [s for s in spec.sizes if s != "extra" or (location / files[s]).is_file()]


def _verify_split(
    report: Report, spec: Spec, name: str, split: str, root: str | Path | None
) -> None:
    try:
        dataset = load(name, split, root=root, holdout=0.0, partial=True)
        if dataset.files is not None:
            _verify_files(report, dataset)
        report.splits[split] = facts = describe(dataset)
    except AibError as error:
        report.differences.append(f"{split}: {error}")
        return
    if facts["images"] != spec.sizes[split]:
        report.differences.append(
            f"{split}: {facts['images']:,} images, officially {spec.sizes[split]:,}"
        )
    if facts["classes"] != len(dataset.class_names):
        report.differences.append(
            f"{split}: images of {facts['classes']} of the {len(dataset.class_names)} classes"
        )
    if dataset.files is not None:
        return
    if bool((dataset.labels.diff() >= 0).all()):
        report.differences.append(f"{split}: images are sorted by class, officially mixed")
    if split == "train":
        _verify_statistics(report, spec, facts)


def describe(dataset: ImageSet) -> dict[str, Any]:
    """Counts, class balance, and channel mean and standard deviation on a 0-1 scale."""
    counts = torch.bincount(dataset.labels, minlength=dataset.num_classes)
    present = counts[counts > 0]
    if dataset.images is not None:
        images, sampled = dataset.images, len(dataset)
    else:
        # Evenly over the set, so that all classes are included.
        chosen = torch.linspace(0, len(dataset) - 1, min(SAMPLE, len(dataset))).long().unique()
        images, sampled = torch.stack([dataset.pixels(i) for i in chosen.tolist()]), len(chosen)
    mean, std = _channel_statistics(images)
    return {
        "images": len(dataset),
        "classes": len(present),
        "images_per_class": [int(present.min()), int(present.max())],
        "statistics_from": sampled,
        "mean": mean,
        "std": std,
    }


def _channel_statistics(images: torch.Tensor) -> tuple[list[float], list[float]]:
    """Exact mean and standard deviation, from counts of the 256 values of uint8 [N,3,H,W]."""
    values = torch.arange(256, dtype=torch.float64) / 255
    means, stds = [], []
    for channel in range(3):
        counts = torch.zeros(256, dtype=torch.float64)
        for chunk in images[:, channel].split(4096):
            counts += torch.bincount(chunk.flatten().int(), minlength=256)
        mean = (counts * values).sum() / counts.sum()
        variance = (counts * (values - mean) ** 2).sum() / counts.sum()
        means.append(round(float(mean), 4))
        stds.append(round(float(variance.sqrt()), 4))
    return means, stds


def _verify_statistics(report: Report, spec: Spec, facts: dict[str, Any]) -> None:
    for name, published in (("mean", spec.mean), ("std", spec.std)):
        if facts[name] != list(published):
            report.differences.append(
                f"train: channel {name} {facts[name]}, officially {list(published)}"
            )


def _verify_checksums(report: Report, spec: Spec, location: Path) -> None:
    for name, official in spec.checksums:
        if not (location / name).is_file():
            continue
        same = pooch.file_hash(location / name, "md5") == official
        report.checksums[name] = "official" if same else "differs"
        if not same:
            report.differences.append(f"{name}: not the official file (the MD5 differs)")


def _verify_files(report: Report, dataset: ImageSet) -> None:
    assert dataset.files is not None
    missing = [path for path in dataset.files.paths if not path.is_file()]
    if missing:
        report.differences.append(
            f"{dataset.split}: {len(missing):,} files are missing, such as {missing[0].name}"
        )
    others = sorted({p.suffix for p in dataset.files.paths} - {".jpg"})
    if others:
        report.differences.append(
            f"{dataset.split}: images are {', '.join(others)}, officially .jpg"
        )
    boxes = dataset.boxes
    if boxes is not None and len(boxes.unique(dim=0)) == 1 and len(boxes) > 1:
        report.differences.append(
            f"{dataset.split}: every bounding box is {boxes[0].tolist()}, so images are cropped"
        )


def _verify_folder(name: str, path: Path) -> Report:
    report = Report(name, str(path))
    present = [split for split in folders.SPLITS if folders.has_split(path, split)] or ["train"]
    for split in present:
        dataset = load(name, split, holdout=0.0)
        report.splits[split] = describe(dataset)
        report.differences += [f"{split}: {message}" for message in dataset.skipped]
    return report


def _verify_shapes(name: str, spec: Spec) -> Report:
    report = Report(name, "generated")
    for split in spec.sizes:
        dataset = load(name, split, holdout=0.0)
        report.splits[split] = describe(dataset)
        if split == "train" and name == "shapes":
            digest = shapes_sha256(dataset)
            same = digest == SHAPES_SHA256
            report.checksums["first 200 images (SHA-256)"] = "official" if same else "differs"
            if not same:
                report.differences.append(
                    f"train: SHA-256 of the first 200 images is {digest}, expected {SHAPES_SHA256}"
                )
    return report
