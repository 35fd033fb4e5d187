"""`aib explain`: pictures of where a model looked, raw maps, boxes, and how they were made."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from aib.commands.arguments import parse_samples, print_json
from aib.config.validation import THRESHOLD, Fraction, Method, check, check_seed
from aib.errors import AibError
from aib.system.progress import progress_bar

if TYPE_CHECKING:
    from aib.interpret.stored import StoredVerdict
    from aib.models.explanation import Explanation


def explain(
    images: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="IMAGE...")],
    /,
    run: Path | None = None,
    backbone: str | None = None,
    method: Method = "own",
    expected: str | None = None,
    threshold: float = THRESHOLD,
    out: Path = Path("explanations"),
    samples: str | None = None,
    deterministic: bool = False,
    seed: int = 0,
    device: str | None = None,
    json: bool = False,
) -> None:
    """Show where a model looks. Writes for each image a PNG (image, map over it, quantised levels,
    uncertainty; of a masked model also what the classifier saw and the bits that the mask lets
    through), the raw map as .npy, a mask (.mask.png) and a box where the map exceeds a threshold,
    and a JSON that says how they were made; then explanations.csv with one row per image; and last
    manifest.json with the SHA-256 of every file. Without a manifest the output is incomplete.

    Example: aib explain cat.jpg holiday/ --run runs/cifar10 --out maps --expected cat

    Args:
        images: image files, or folders of them. Masks (in a folder masks/ beside those of the
            classes), hidden files and pictures drawn by aib are skipped. A file or sub-folder that
            cannot be read is skipped, too; if a file was named, the exit code is 2. A named folder
            has to be readable.
        run: folder of a run or of a saved model, or hf:owner/name[@REVISION] of the Hub; or a
            packaged model by its name, unless there is a model's folder of that name. By default
            the pretrained model of the package.
        backbone: my_module:build, for runs of a network of your own; never imported unasked.
        method: the model's own map, or a post-hoc one through captum.
        expected: a class; adds post-hoc maps of the predicted class and of this one (Grad-CAM, or
            the method given), as a picture and as .classes.npy, and its probability.
        threshold: where to cut the map for mask and box: the mask of a masked model as it is, any
            other map scaled to [0,1].
        out: folder to write to; only files of earlier explanations are replaced.
        samples: attention x latent samples, such as 4x12; by default as in evaluation, but only two
            masks of a masked model, as each is a pass of the whole network.
        deterministic: use the means instead of samples.
        seed: random seed of the samples.
        device: cpu or cuda; by default cuda if available.
        json: print the records as JSON.
    """
    from aib.data.decode import open_rgb
    from aib.figures.manifest import (
        MANIFEST,
        TABLE,
        check_outputs,
        replacing,
        write_manifest,
        write_table,
    )
    from aib.figures.saved import check_targets, distinct_names
    from aib.interpret.maps import explain as explain_image
    from aib.interpret.stored import stored_verdict
    from aib.runs.run import find_model, open_run

    check_seed(seed)
    check("threshold", threshold, Fraction)
    skipped: dict[str, str] = {}
    files = find_images(images, skipped)
    names = distinct_names(path.stem for path in files)
    check_targets(out, names)
    check_outputs(out)
    count = parse_samples(samples) if samples else None
    opened = open_run(find_model(run), device, backbone)
    verdict = stored_verdict(opened) if method == "own" else None
    origin = {
        "run": opened.source,
        "weights_sha256": opened.checksum,
        "verdict": verdict.to_dict() if verdict else None,
    }
    records: dict[str, dict[str, Any]] = {}  # by the name of their files
    with ExitStack() as writing, progress_bar(len(files)) as tick:
        for path, name in zip(files, names, strict=True):
            tick("explaining", 1)
            try:
                image = open_rgb(path)
            except AibError as error:
                print(f"skipped: {error}", file=sys.stderr)
                skipped[str(path)] = str(error)
                continue
            found = explain_image(
                opened.model,
                image,
                method=method,
                samples=count,
                deterministic=deterministic,
                seed=seed,
                threshold=threshold,
                expected=expected,
            )
            made_with = found.made_with | origin
            found = replace(found, paths=(path,), made_with=made_with)
            if not records:
                writing.enter_context(replacing(out))
            records[name] = save(found, out, name, f"{opened.name} · {opened.label}", verdict)
            if not json:
                show(found, records[name])
        if not records:
            raise AibError(f"none of the {len(files)} image(s) could be explained")
        rows = list(records.values())
        write_table(out, rows)
        options = {
            "method": method,
            "expected": expected,
            "threshold": threshold,
            "samples": found.samples,
            "seed": found.seed,
            "backbone": backbone,
        }
        images_sha256 = {record["image"]: record["image_sha256"] for record in rows}
        facts = {"options": options, "images": images_sha256, "skipped": skipped, **made_with}
        write_manifest(out, list(records), facts)
    if json:
        print_json({"explanations": rows, **made_with})
    else:
        print(f"decision: {found.scope}")
        print(f"written: {out / TABLE}, {out / MANIFEST}")
        if verdict:
            print(verdict.line)
    if verdict and verdict.verdict.warning:
        print(f"warning: {verdict.text}", file=sys.stderr)
    if missed := [str(path) for path in images if str(path) in skipped]:
        raise AibError(f"{len(missed)} named file(s) could not be explained: {', '.join(missed)}")


def save(
    found: "Explanation", out: Path, name: str, model: str, verdict: "StoredVerdict | None"
) -> dict[str, Any]:
    """Write the files of one image; its record, with where they are."""
    from aib.evaluation.error import describe_samples

    subtitle = f"{model} · {describe_samples(found.samples)} · {found.scope}"
    subtitle += f"\n{verdict.line}" if verdict else ""
    [picture] = found.save(out, [name], subtitle=subtitle)
    return found.record() | {"picture": str(picture), "map": f"{name}.npy"}


def show(found: "Explanation", record: dict[str, Any]) -> None:
    """Print the decision on one image, and the file of its picture."""
    decided = f"{_percent(record, 'prediction', 'probability')}, {found.certainty()}"
    print(f"{found.paths[0]}: {decided}  {record['picture']}")
    if record.get("expected") is not None:
        print(f"  expected: {_percent(record, 'expected', 'expected_probability')}")


def _percent(record: dict[str, Any], name: str, probability: str) -> str:
    return f"{record[name]} {100 * record[probability]:.1f}%"


def find_images(paths: Sequence[Path], skipped: dict[str, str]) -> list[Path]:
    """The files named and the images inside folders, without masks and pictures drawn by aib.

    `skipped` receives the folders that cannot be read.
    """
    from aib.data.folder import image_files
    from aib.figures.picture import is_figure

    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = image_files(path)
            if not inside:
                raise AibError(f"the folder {path} holds no image files")
            found += inside
        else:
            found.append(path)
    found = list(dict.fromkeys(found))
    files = [path for path in found if not is_figure(path)]
    if len(files) < len(found):
        print(f"skipped: {len(found) - len(files)} figure(s) drawn by aib", file=sys.stderr)
    if not files and found:
        raise AibError("all of these images are figures drawn by aib; name the original images")
    if not files:
        raise AibError("name at least one image file or folder")
    return files


COMMAND = explain
