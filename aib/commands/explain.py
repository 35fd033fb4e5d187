"""`aib explain`: pictures of where a model looked, raw maps, boxes, and how they were made."""

import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import Annotated, Any

import tyro

from aib.commands.arguments import parse_samples, print_json
from aib.config.validation import Method, check_seed
from aib.errors import AibError
from aib.system.files import quoted
from aib.system.progress import progress_bar, silent

OUT = "explanations"
MASKS = "masks"  # folders of this name hold no images to explain
TOP = 3  # classes printed


def explain(
    images: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="IMAGE...")],
    /,
    run: Path | None = None,
    backbone: str | None = None,
    method: Method = "own",
    out: Path | None = None,
    overwrite: bool = False,
    samples: str | None = None,
    deterministic: bool = False,
    seed: int = 0,
    device: str | None = None,
    json: bool = False,
) -> None:
    """Show where a model looks. Writes three files for each image: a picture (PNG), the raw map
    (.npy), and a record of the decision and how it was made (JSON).

    Example: aib explain cat.jpg holiday/ --run runs/cifar10 --out maps

    Args:
        images: image files, or folders of them. One that cannot be read is skipped.
        run: a run, a saved model, hf:owner/name, or a packaged model by name (the default).
        backbone: my_module:build, for runs of a network of your own; never imported unasked.
        method: the model's own map, or Grad-CAM through captum.
        out: a new or empty folder to write to; by default explanations, explanations-2, ...
        overwrite: write to a folder that is not empty, and replace files of the same names.
        samples: attention x latent samples, such as 4x12; by default those of the evaluation, or
            one pass without noise for a masked model without a latent.
        deterministic: use the means instead of samples.
        seed: random seed of the samples.
        device: cpu or cuda; by default cuda if available.
        json: print the records as JSON.
    """
    from aib.data.decode import open_rgb
    from aib.evaluation.error import describe_samples
    from aib.figures.picture import distinct_names
    from aib.interpret.maps import explain as explain_image
    from aib.interpret.stored import stored_verdict
    from aib.models.explanation import record
    from aib.runs.pretrained import find_model
    from aib.runs.run import open_run

    check_seed(seed)
    options: dict[str, Any] = {
        "method": method,
        "samples": parse_samples(samples) if samples else None,
        "deterministic": deterministic,
        "seed": seed,
    }
    files, folder = find_images(images), choose_folder(out, overwrite)
    opened = open_run(find_model(run), device, backbone, fold=True)
    verdict = stored_verdict(opened) if method == "own" else None
    origin = {
        "run": opened.source,
        "weights_sha256": opened.checksum,
        "verdict": verdict.to_dict() if verdict else None,
    }
    pending: list[Future[dict[str, Any]]] = []
    skipped: list[Path] = []
    names = distinct_names(path.stem for path in files)
    bar = progress_bar(len(files)) if len(files) > 1 else nullcontext(silent)

    def write(path: Path, name: str, found: Any) -> dict[str, Any]:
        facts = (opened.name, opened.label, describe_samples(found.samples), found.scope)
        about = " · ".join(dict.fromkeys(facts)) + (f"\n{verdict.line}" if verdict else "")
        [picture] = found.save(folder, [name], subtitle=about, overwrite=overwrite)
        if not json:
            classes = ", ".join(f"{name} {100 * p:.1f}%" for name, p in found.top(0, TOP))
            warning = found.certainty()
            print(f"{path}: {classes}" + (f"; {warning}" if warning else ""), f" {picture}")
        return record(found) | {"picture": str(picture)} if json else {}

    # An explanation is written while the next one is made.
    with bar as tick, ThreadPoolExecutor(1) as writer:
        for path, name in zip(files, names, strict=True):
            tick("explaining", 1)
            try:
                image = open_rgb(path)
            except AibError as error:
                print(f"skipped: {error}", file=sys.stderr)
                skipped.append(path)
                continue
            found = explain_image(opened.model, image, **options)
            found = replace(found, paths=(path,), made_with=found.made_with | origin)
            pending.append(writer.submit(write, path, name, found))
            if len(pending) > 1:
                pending[-2].result()  # only one waits, and an error stops the command
    records = [one.result() for one in pending]
    if not records:
        raise AibError(f"none of the {len(files)} image(s) could be explained")
    if json:
        print_json({"explanations": records, **found.made_with})
    else:
        print(f"decision: {found.scope}\nwritten to {folder}")
        if method == "own":
            how = f"not measured; run `aib interpret {quoted(opened.source)}`"
            print(verdict.line if verdict else f"map: {how}")
    if verdict and verdict.verdict.warning:
        print(f"warning: {verdict.text}", file=sys.stderr)
    if missed := [str(path) for path in skipped if path in images]:
        raise AibError(f"{len(missed)} named file(s) could not be explained: {', '.join(missed)}")


def find_images(paths: Sequence[Path]) -> list[Path]:
    """The files named and the images inside folders, without those in folders of masks."""
    from aib.data.folder import image_files

    found: list[Path] = []
    for path in paths:
        inside = image_files(path) if path.is_dir() else [path]
        found += [one for one in inside if MASKS not in one.relative_to(path).parts]
    if not found:
        raise AibError("name at least one image file, or a folder that holds one")
    return list(dict.fromkeys(found))


def choose_folder(out: Path | None, overwrite: bool) -> Path:
    """The folder to write to: `out` if it is new or empty, or the next numbered one."""
    if out is None:
        names = (f"{OUT}-{number}" for number in count(2))
        return next(path for path in map(Path, chain([OUT], names)) if not path.exists())
    if not overwrite and out.exists() and any(out.iterdir()):
        raise AibError(f"--out {out} is not empty: name a new folder, or add --overwrite")
    return out


COMMAND = explain
