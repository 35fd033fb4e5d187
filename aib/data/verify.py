"""Compare a data set with the official one: counts, checksums, class balance, statistics."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pooch
import torch

from aib.data import folder as folders
from aib.data.files import require
from aib.data.imageset import ImageFiles, ImageSet
from aib.data.load import has_split, load, parse_name
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
    notes: list[str] = field(default_factory=list)  # on files, where the content agrees


def verify(name: str, root: str | Path | None = None) -> Report:
    """Check all splits of a data set."""
    kind, path, options = parse_name(name)
    spec = SPECS.get(kind)  # None for a folder
    official = spec is not None and bool(spec.folders)
    location = path if spec is None else require(spec, root) if official else "generated"
    report = Report(name, str(location))
    source, asked = name, dict[str, Any]()
    if official:  # all images, as they are: another size or a held-out part is no difference
        asked = {k: v for k, v in options.items() if k not in ("image_size", "holdout")}
        source, asked["partial"] = kind, True
    for split in _splits(spec, name, Path(location)):
        try:
            dataset = load(source, split, root=root, holdout=0.0, **asked)
            found = [*dataset.skipped]
            found += _differing_files(SPECS[kind], dataset) if official else ()
            report.differences += [f"{split}: {text}" for text in found]
            report.splits[split] = facts = describe(dataset)
        except AibError as error:
            report.differences.append(f"{split}: {error}")
            continue
        if official:
            differing = _differing_facts(SPECS[kind], dataset, facts)
            report.differences += [f"{split}: {text}" for text in differing]
        if name == "shapes" and split == "train":
            what = "first 200 images (SHA-256)"
            _compare(report, what, shapes_sha256(dataset), SHAPES_SHA256, container=False)
    if not report.splits:
        raise AibError(f"nothing of {name} can be read: {report.differences[0]}")
    if spec is not None:
        single = {a.file_name: a.md5 for a in spec.archives if not a.is_tar}
        for file, md5 in (spec.checksums | single).items():
            if (Path(location) / file).is_file():
                found = pooch.file_hash(Path(location) / file, "md5")
                _compare(report, file, found, md5, container=file in single)
    return report


def _splits(spec: Spec | None, name: str, location: Path) -> list[str]:
    """The splits to check; `extra`, which few need, only if its file is there."""
    if spec is None:
        return [s for s in folders.SPLITS if has_split(name, s)] or ["train"]
    files = {archive.split: archive.file_name for archive in spec.archives}
    return [s for s in spec.sizes if s != "extra" or (location / files[s]).is_file()]


def _compare(report: Report, file: str, checksum: str, official: str, container: bool) -> None:
    """Compare checksums. A container (.mat) may hold the same content in other bytes: a note."""
    report.checksums[file] = "official" if checksum == official else "differs"
    what = f"{file} is not the official file" if container else file
    if checksum != official:
        listed = report.notes if container else report.differences
        listed.append(f"{what}: checksum {checksum}, officially {official}")


def _differing_files(spec: Spec, dataset: ImageSet) -> Iterator[str]:
    if not isinstance(dataset.files, ImageFiles):
        return
    paths, boxes = dataset.files.paths, dataset.boxes
    missing = [path for path in paths if not path.is_file()]
    if missing:
        yield f"{len(missing):,} files are missing, such as {missing[0].name}"
    if unknown := dataset.files.objects.count(None):
        yield f"{unknown:,} masks are missing"
    if others := sorted({path.suffix for path in paths} - {spec.suffix}):
        yield f"images are {', '.join(others)}, officially {spec.suffix}"
    if boxes is not None and len(boxes) > 1 and len(boxes.unique(dim=0)) == 1:
        yield f"every bounding box is {boxes[0].tolist()}, so images are cropped"


def _differing_facts(spec: Spec, dataset: ImageSet, facts: dict[str, Any]) -> Iterator[str]:
    official = spec.sizes[dataset.split]
    if facts["images"] != official:
        yield f"{facts['images']:,} images, officially {official:,}"
    if facts["classes"] != dataset.num_classes:
        yield f"images of {facts['classes']} of the {dataset.num_classes} classes"
    if dataset.files is not None:
        return
    if bool((dataset.labels.diff() >= 0).all()):
        yield "images are sorted by class, officially mixed"
    if dataset.split == "train":
        for name, published in (("mean", spec.mean), ("std", spec.std)):
            differs = [abs(a - b) > 1.5e-4 for a, b in zip(facts[name], published, strict=True)]
            if any(differs):  # by more than one in the last of the four decimals
                yield f"channel {name} {facts[name]}, officially {list(published)}"


def shapes_sha256(dataset: ImageSet) -> str:
    """SHA-256 of the pixels, masks and labels of the first 200 images."""
    assert dataset.images is not None and dataset.objects is not None
    digest = hashlib.sha256()
    for tensor in (dataset.images, dataset.objects, dataset.labels):
        digest.update(tensor[:200].contiguous().numpy().tobytes())
    return digest.hexdigest()


def describe(dataset: ImageSet) -> dict[str, Any]:
    """Counts, class balance, and channel mean and standard deviation on a 0-1 scale."""
    counts = dataset.labels.unique(return_counts=True)[1]  # of the classes with images
    images = dataset.images
    if images is None:  # a sample evenly over the set, so that all classes are included
        chosen = torch.linspace(0, len(dataset) - 1, min(SAMPLE, len(dataset))).long().unique()
        images = torch.stack([dataset.pixels(i) for i in chosen.tolist()])
    # Exact mean and standard deviation, from counts of the 256 values.
    histograms = torch.stack([images[:, c].flatten().bincount(minlength=256) for c in range(3)])
    share = histograms / histograms[0].sum().double()  # [3,256]
    values = torch.arange(256, dtype=torch.float64) / 255
    mean = share @ values  # [3]
    std = (share * (values - mean[:, None]) ** 2).sum(1).sqrt()
    return {
        "images": len(dataset),
        "classes": len(counts),
        "images_per_class": [int(counts.min()), int(counts.max())],
        "statistics_from": len(images),
        "mean": [round(value, 4) for value in mean.tolist()],
        "std": [round(value, 4) for value in std.tolist()],
    }
