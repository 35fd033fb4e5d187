"""`aib explain`: a picture of where the model looked, and a record of how it was made."""

import json as jsonlib
import sys
from pathlib import Path
from typing import Annotated, Any

import tyro

from aib.checkpoint import write_whole
from aib.commands.bar import progress
from aib.commands.options import parse, parse_samples
from aib.data.decode import open_rgb
from aib.errors import AibError
from aib.interpret.explanation import explain_image, find_images
from aib.interpret.picture import save_figure
from aib.interpret.subject import Method
from aib.opened import Opened, open_runs, sha256
from aib.packaged import find_model
from aib.run import environment
from aib.settings import check_seed


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
        images: image files, or folders of them.
        run: folder of a run or of a saved model; without it the pretrained model of the package.
        method: the model's own map, or one made after the fact through captum.
        out: folder for the pictures and records.
        samples: attention x latent samples, such as 4x12; the model's profile decides otherwise.
        deterministic: take the means instead of samples.
        seed: of the samples.
        device: cpu or cuda; whatever there is if not given.
        json: print the records as JSON.
    """
    check_seed(seed)
    files = find_images(images)
    if not files:
        raise AibError("name at least one image file or folder")
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
    names: set[str] = set()
    with progress(len(files)) as tick:
        for path in files:
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
            target = _target(out, path.stem, names)
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


def _subtitle(opened: Opened, samples: str) -> str:
    return f"{opened.name} · {opened.label} · {samples} samples"


def _target(out: Path, stem: str, taken: set[str]) -> Path:
    """A name for each picture, also where two images share theirs."""
    name, number = stem, 2
    while name in taken:
        name, number = f"{stem}-{number}", number + 1
    taken.add(name)
    return out / f"{name}.png"


def _write(path: Path, record: dict[str, Any]) -> None:
    text = jsonlib.dumps(record, indent=2) + "\n"
    write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def main(argv: list[str]) -> None:
    """Entry point of the command table."""
    parse(explain, argv, "aib explain")
