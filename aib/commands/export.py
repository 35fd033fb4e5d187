"""`aib export`: write a trained model to one file that runs without aib."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from aib.commands.arguments import print_json
from aib.config.validation import Count, Format, check, check_seed
from aib.errors import AibError, counted
from aib.system.progress import progress_bar

if TYPE_CHECKING:
    from torch import Tensor

    from aib.data import ImageSet
    from aib.export import Exported, Int8
    from aib.runs.run import Run

COMPARED = 256  # images that int8 and float32 are compared on


def export_(
    run: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[RUN]")] = None,
    /,
    format: Format = "onnx",
    out: Path | None = None,
    backbone: str | None = None,
    int8: bool = False,
    data: str | None = None,
    root: str | None = None,
    calibrate: int = 128,
    seed: int = 0,
    json: bool = False,
) -> None:
    """Write a model as ONNX or torch.export: pixels in 0..1 to logits, attention map and sigma,
    without noise, for any batch size. The file holds class names and preprocessing.

    The file is compared with PyTorch before it is written, and the largest difference is printed.

    Example: aib export runs/cifar10 --format onnx --int8

    Args:
        run: folder of a run or of a saved model, or hf:owner/name[@REVISION] of the Hub; or a
            packaged model by its name, unless there is a model's folder of that name. By default
            the pretrained model of the package.
        format: onnx, or torch-export (a .pt2 file).
        out: the file to write; by default model.onnx or model.pt2 in the run, or in
            hub/owner/name/COMMIT for a model of the Hub; for a packaged model its name with the
            suffix, in the current folder.
        backbone: my_module:build, for runs of a network of your own; never imported unasked.
        int8: also write an ONNX file in 8-bit integers, and compare it with float32.
        data: data set for int8; by default the run's own.
        root: folder of the data set's official files.
        calibrate: number of training images that calibrate int8.
        seed: random seed of the choice of images for int8.
        json: print JSON.
    """
    from aib.export import STEPS, check_target, export, quantise
    from aib.runs.run import find_model, open_run

    if int8 and format != "onnx":
        raise AibError(f"--int8 needs --format onnx, not {format}")
    check("calibrate", calibrate, Count)
    check_seed(seed)
    opened = open_run(find_model(run), "cpu", backbone)
    target = check_target(out or default_target(opened.output, format), format)
    images = int8_images(opened, data, root, calibrate, seed) if int8 else None
    with progress_bar(STEPS + 2 * int8) as tick:
        exported = export(
            opened.model,
            target,
            format,
            data=opened.settings.data if opened.settings else None,
            checksum=opened.checksum,
            tick=tick,
        )
        small = None
        if images is not None:
            tick("int8", 1)
            small = quantise(exported.path, exported.path.with_suffix(".int8.onnx"), *images)
    if json:
        print_json(record(exported, small))
    else:
        print_exported(exported)
        if small is not None:
            print_int8(small)


def default_target(folder: Path, format: Format) -> Path:
    """In the run's folder for output; for a model of the package, the current folder."""
    from aib.export.formats import SUFFIXES
    from aib.runs.pretrained import packaged_models

    for name, packaged in packaged_models().items():
        if folder == packaged:
            return Path(name + SUFFIXES[format])
    return folder / ("model" + SUFFIXES[format])


def int8_images(
    opened: "Run", data: str | None, root: str | None, count: int, seed: int
) -> "tuple[Tensor, Tensor, str]":
    """Training images to calibrate with, others to compare on, and the name of the data."""
    import torch

    training = opened.images(data, "train", root)
    others = opened.images(data, None, root)
    order = torch.randperm(len(training), generator=torch.Generator().manual_seed(seed))
    if others.split == training.split:  # a folder without test images: divide it
        count = min(count, len(training) // 2)
        rest = order[count:]
    else:
        rest = torch.randperm(len(others), generator=torch.Generator().manual_seed(seed))
    if count < 1:
        raise AibError(f"int8 needs at least 2 images, and {training.name} has {len(training)}")
    return stack(training, order[:count]), stack(others, rest[:COMPARED]), training.name


def stack(images: "ImageSet", indices: "Tensor") -> "Tensor":
    """uint8 [N,3,S,S]"""
    import torch

    return torch.stack([images.pixels(i) for i in indices.tolist()])


def record(exported: "Exported", small: "Int8 | None") -> dict[str, Any]:
    from aib.system.environment import environment

    return {
        "path": str(exported.path),
        "bytes": exported.bytes,
        "check": asdict(exported.check),
        "int8": None if small is None else asdict(small) | {"path": str(small.path)},
        "metadata": exported.metadata,
        "environment": environment(),
    }


def print_exported(exported: "Exported") -> None:
    from aib.export.check import BATCHES

    found, about = exported.check, exported.metadata
    sizes = ", ".join(map(str, BATCHES[:-1])) + f" and {BATCHES[-1]}"
    print(f"{exported.path}: {about['model']}, {exported.bytes / 1e6:.2f} MB")
    print(f"  {found.images} images in batches of {sizes}, largest difference from PyTorch:")
    for name, difference in found.differences.items():
        print(f"    {name:<16} {difference:.1e}")
    if found.positions is not None:
        print(
            f"  {found.other_level} of {found.positions:,} positions of the map lay midway between "
            "two levels and took the other one"
        )


def print_int8(small: "Int8") -> None:
    share = small.bytes / small.fp32_bytes
    print(f"{small.path}: int8, {small.bytes / 1e6:.2f} MB, {100 * share:.0f}% of float32")
    print(
        f"  calibrated on {counted(small.calibration_images, 'image')}; {small.images} others: "
        f"same prediction for {100 * small.agreement:.1f}%; difference from float32, largest and "
        "mean:"
    )
    for name, difference in small.differences.items():
        print(f"    {name:<16} {difference:.1e}  {small.mean_differences[name]:.1e}")


COMMAND = export_
