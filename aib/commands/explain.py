"""`aib explain`: a picture of where the model looked, and a record of how it was made."""

import json as jsonlib
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import tyro

from aib.commands.bar import progress
from aib.commands.options import parse, parse_samples
from aib.data.decode import open_rgb
from aib.environment import environment
from aib.errors import AibError
from aib.figures.picture import is_figure, save_figure
from aib.files import read_json, sha256, write_whole
from aib.interpret.explanation import explain_image, find_images
from aib.interpret.maps import Method
from aib.runs import Run, find_model, open_runs
from aib.types import check_seed


def explain(
    images: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="IMAGE...")],
    /,
    run: Path | None = None,
    method: Method = "own",
    out: Path = Path("explanations"),
    samples: str | None = None,
    deterministic: bool = False,
    seed: int = 0,
    device: str | None = None,
    json: bool = False,
) -> None:
    """Show where a model looks: for each image a PNG (image, map over it, quantised levels,
    uncertainty) and a JSON that says how it was made.

    Example: aib explain cat.jpg holiday/ --run runs/cifar10 --out maps

    Args:
        images: image files, or folders of them; figures that aib has drawn are skipped.
        run: folder of a run or of a saved model; without it the pretrained model of the package.
        method: the model's own map, or one made after the fact through captum.
        out: folder for the pictures and records; only those of earlier calls are replaced.
        samples: attention x latent samples, such as 4x12; the model's profile decides otherwise.
        deterministic: take the means instead of samples.
        seed: of the samples.
        device: cpu or cuda; whatever there is if not given.
        json: print the records as JSON.
    """
    check_seed(seed)
    found = find_images(images)
    files = [path for path in found if not is_figure(path)]
    if len(files) < len(found):
        print(f"skipped: {len(found) - len(files)} figure(s) drawn by aib", file=sys.stderr)
    if not files:
        raise AibError("name at least one image file or folder")
    targets = _targets(files, out)
    drawn = parse_samples(samples) if samples else None
    [opened] = open_runs((find_model(run),), device)
    how = {
        "model": opened.name,
        "run": str(opened.folder),
        "weights_sha256": opened.checksum,
        "recipe": opened.model.recipe,
        "preprocessing": opened.model.preprocessing.to_dict(),
        "environment": environment(),
    }
    made: list[dict[str, Any]] = []
    with progress(len(files)) as tick:
        for path, target in zip(files, targets, strict=True):
            tick("explaining", 1)
            try:
                image = open_rgb(path)
            except AibError as error:
                print(f"skipped: {error}", file=sys.stderr)
                continue
            explained = explain_image(
                opened.model,
                image,
                path,
                method=method,
                samples=drawn,
                deterministic=deterministic,
                seed=seed,
            )
            save_figure(explained.draw(_subtitle(opened, explained.samples)), target)
            record = explained.record() | {"image_sha256": sha256(path), "picture": target.name}
            _write(target.with_suffix(".json"), record | how)
            made.append(record | {"picture": str(target)})
            if not json:
                print(
                    f"{path}: {record['prediction']} {100 * record['probability']:.1f}%  {target}"
                )
    if not made:
        raise AibError(f"none of the {len(files)} image(s) could be explained")
    if json:
        print(jsonlib.dumps({"explanations": made, **how}, indent=2))


def _subtitle(opened: Run, samples: str) -> str:
    return f"{opened.name} · {opened.label} · {samples} samples"


def _targets(files: list[Path], out: Path) -> list[Path]:
    """A picture's path for each image, all different; refuse one where a file of the user's is."""
    taken: dict[Path, None] = {}
    for path in files:
        name, number = path.stem, 2
        while (target := out / f"{name}.png") in taken:
            name, number = f"{path.stem}-{number}", number + 1
        taken[target] = None
    for target in taken:
        for path, ours in ((target, is_figure), (target.with_suffix(".json"), _is_record)):
            if os.path.lexists(path) and not ours(path):
                raise AibError(
                    f"{path} would be overwritten, and `aib explain` did not write it; choose "
                    "another folder with --out"
                )
    return list(taken)


def _is_record(path: Path) -> bool:
    """Did `aib explain` write this JSON?"""
    try:
        record = read_json(path) or {}
    except AibError:
        return False
    return "image_sha256" in record and record.get("picture") == path.with_suffix(".png").name


def _write(path: Path, record: dict[str, Any]) -> None:
    text = jsonlib.dumps(record, indent=2) + "\n"
    write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def main(argv: list[str]) -> None:
    """Entry point of the command table."""
    parse(explain, argv, "aib explain")
