"""List, fetch, verify and show data sets. For example: aib data list"""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Column, Table
from tyro.conf import Positional, arg

from aib.commands.arguments import print_json, wide_console
from aib.config.validation import Count, check
from aib.errors import AibError
from aib.system.files import check_suffix, quoted

if TYPE_CHECKING:
    from aib.data.verify import Report

Name = Annotated[Positional[str], arg(metavar="NAME")]
Root = Annotated[str | None, arg(metavar="FOLDER")]


def list_(root: Root = None, json: bool = False) -> None:
    """List the known data sets, and which are on disk.

    For example: aib data list --root ~/datasets

    Args:
        root: folder of the data sets; by default the cache ($AIB_DATA).
        json: print JSON instead of a table.
    """
    from aib.data.files import locate, root_folder
    from aib.data.specs import SPECS

    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "title": spec.title,
            "classes": spec.num_classes,
            "image_size": spec.image_size,
            "images": spec.sizes,
            "location": "generated" if not spec.folders else str(locate(spec, root) or "") or None,
        }
        for name, spec in SPECS.items()
    ]
    if json:
        print_json({"root": str(root_folder(root)), "sets": rows})
        return
    table = Table("name", "title", "classes", "size", "images", Column("location", overflow="fold"))
    for row in rows:
        images = ", ".join(f"{split} {count:,}" for split, count in row["images"].items())
        location = row["location"] or f"not on disk: aib data fetch {row['name']}"
        size = f"{row['image_size']} px"
        table.add_row(row["name"], row["title"], str(row["classes"]), size, images, location)
    table.add_row("folder:PATH", "your own images: one sub-folder per class", "", "", "", "")
    table.add_row("hf:NAME", "a Hugging Face data set; needs 'aib[datasets]'", "", "", "", "")
    console = wide_console()
    console.print(table)
    console.print(f"Data sets are in {root_folder(root)}.")


def fetch(name: Name, /, root: Root = None, extra: bool = False) -> None:
    """Download a data set, check it and unpack it.

    It can be interrupted: only a complete data set (of SVHN, file) is moved into place.

    For example: aib data fetch cifar10

    Args:
        name: one of the names that `aib data list` shows.
        root: folder to download to; by default the cache ($AIB_DATA).
        extra: also SVHN's 531,131 extra images (1.3 GB).
    """
    from aib.data.fetch import fetch as fetch_set
    from aib.data.load import is_own, parse_name
    from aib.data.specs import SPECS

    if is_own(name):
        raise AibError(f"{name} is read where it is, so there is nothing to fetch")
    spec = SPECS[parse_name(name)[0]]
    folder = fetch_set(spec, root, extra=extra)
    check = f"aib data verify {name}" + (f" --root {quoted(root)}" if root else "")
    print(f"{name} is in {folder}; `{check}` compares it with the official set")


def verify(name: Name, /, root: Root = None, json: bool = False) -> None:
    """Compare a data set with the official one: counts, checksums, balance, channel statistics.

    The exit code is 0 if nothing differs, else 2 with a list of the differences. A .mat file with
    other bytes than the official one, but its counts and statistics, is only reported.

    For example: aib data verify cifar10 --root ~/datasets

    Args:
        name: a known name, optionally with options (cifar100:labels=coarse), or folder:PATH.
        root: folder of the data sets; by default the cache ($AIB_DATA).
        json: print JSON.
    """
    from aib.data.verify import verify as verify_set

    report = verify_set(name, root)
    if json:
        print_json(asdict(report))
    else:
        _print_report(report)
    if report.differences:
        raise AibError(f"{name} is not as it should be: {len(report.differences)} difference(s)")


def _print_report(report: "Report") -> None:
    print(f"{report.name}: {report.location}")
    for split, facts in report.splits.items():
        low, high = facts["images_per_class"]
        mean, std = (" ".join(f"{v:.4f}" for v in facts[name]) for name in ("mean", "std"))
        print(
            f"  {split}: {facts['images']:,} images, {facts['classes']} classes of "
            f"{low:,} to {high:,} images"
        )
        print(f"    mean {mean}, std {std} (of {facts['statistics_from']:,} images, 0-1 scale)")
    for file, result in report.checksums.items():
        print(f"  checksum of {file}: {result}")
    for note in report.notes:
        print(f"  note: {note}")
    for difference in report.differences:
        print(f"  differs: {difference}")
    if not report.differences:
        what = "counts and statistics are the official ones" if report.notes else "nothing differs"
        print(f"  {what}")


def show(
    name: Name,
    /,
    split: str = "train",
    root: Root = None,
    out: Path | None = None,
    columns: int = 8,
    seed: int = 0,
    strict: bool = False,
) -> None:
    """Write a contact sheet: a row of images per class, with masks if there are any.

    For example: aib data show shapes:clutter=1.5,size=small --out shapes.png

    Args:
        name: a known name with options after a colon, or folder:PATH.
        split: train, val, test (svhn: extra).
        root: folder of the data sets; by default the cache ($AIB_DATA).
        out: the PNG to write; by default NAME-SPLIT.png, with the name of a folder.
        columns: images per class.
        seed: of generated training images and of the train/val split.
        strict: a file that cannot be read is an error.
    """
    from aib.data.load import is_own, load, parse_name
    from aib.data.sheet import contact_sheet
    from aib.figures.picture import save_image

    check("columns", columns, Count)
    holdout = 0.1 if split == "val" else 0.0
    dataset = load(name, split, root=root, seed=seed, strict=strict, holdout=holdout)
    kind, folder, _ = parse_name(name)
    known = f"{kind}-{folder.resolve().name}" if is_own(name) else kind
    path = out or Path(f"{known}-{split}.png")
    check_suffix(path, ".png")
    save_image(contact_sheet(dataset, columns), path)
    for message in dataset.skipped:
        print(f"skipped: {message}")
    if dataset.skipped:
        print(f"{len(dataset.skipped)} file(s) skipped")
    print(f"{path}: {len(dataset):,} images of {dataset.num_classes} classes in {name} {split}")


COMMAND: dict[str, Callable[..., Any]] = {
    "list": list_,
    "fetch": fetch,
    "verify": verify,
    "show": show,
}
