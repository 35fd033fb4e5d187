"""Turn a run into a model of the package: `python -m tools.package_model RUN NAME`.

The weights are stored in half precision. The card states the run's own error, measured before, and
the error with these weights: of all images, or with `--images` of some, without noise. The metrics
of the maps are the run's own. Two commands measure them again with the packaged weights:

    aib interpret aib/pretrained_models/NAME --data DATA --split val ... --out STUDY
    python -m tools.package_model --maps STUDY NAME
"""

import argparse
import shutil
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from huggingface_hub import ModelCardData
from safetensors.torch import load_file, save_file

from aib.card import CARD, code, plain
from aib.data.specs import SPECS
from aib.data.split import sample_indices
from aib.errors import AibError
from aib.evaluation import describe_samples, evaluate
from aib.files import read_json, sha256, without_folders, write_json, write_whole
from aib.interpret.stored import RESULT
from aib.runs import EVALUATION, PACKAGED, open_runs
from aib.weights import CONFIG, WEIGHTS, read_config
from tools.results.collect import count_parameters, interpreted
from tools.results.command import portable, train_command

HALVED = "half precision"  # in the name of the evaluation with the packaged weights
REPLACED = {
    "mean": "the map's mean everywhere",
    "shuffled": "its positions shuffled",
    "another": "another image's map",
}
ORDERS = {"own": "in the map's order", "random": "random order", "centre": "from the centre"}


def package(
    run: Path,
    target: Path,
    root: str | None = None,
    images: int | None = None,
    license: str = "mit",
    notes: tuple[str, ...] = (),
) -> None:
    """Write weights, config, results and model card of a finished run into `target`."""
    [opened] = open_runs((run,))
    settings = opened.settings
    if settings is None:
        raise AibError(f"{run} is a saved model, not a run: it has no recipe for the card")
    recipe = settings.recipe()
    trained = {
        "recipe": {k: without_folders(v) if k == "init" else v for k, v in recipe.items()},
        "license": license,
        "notes": list(notes),
        "environment": portable(read_config(run / CONFIG)["environment"]),
    }
    with TemporaryDirectory() as scratch:
        halved = Path(scratch)
        halve(run / WEIGHTS, halved / WEIGHTS)
        write_json(halved / CONFIG, opened.model.config() | {"trained": trained}, indent=1)
        [small] = open_runs((halved,))
        data = opened.images(root=root)
        data = data.subset(sample_indices(len(data), images, seed=0))
        measured = evaluate(small.model, data, deterministic=images is not None, batch_size=16)
        both = {
            settings.reported: (read_json(run / EVALUATION) or {})[settings.reported],
            f"{settings.reported}, {HALVED}": measured.to_dict(),
        }
        write_json(halved / EVALUATION, both, indent=1)
        maps = interpreted(run)
        if maps is not None:
            write_json(halved / RESULT, maps, indent=1)
        for path in sorted(halved.iterdir()):
            write_whole(target / path.name, partial(shutil.copyfile, path))
    write_card(target)


def replace_maps(study: Path, target: Path) -> None:
    """Copy a new `aib interpret` of a packaged model into its folder and card."""
    maps = interpreted(study)
    if maps is None or maps["weights_sha256"] != sha256(target / WEIGHTS):
        raise AibError(f"{study} holds no {RESULT} of the weights in {target}")
    write_json(target / RESULT, maps, indent=1)
    write_card(target)


def halve(source: Path, target: Path) -> None:
    """Copy the weights in half precision."""
    weights = load_file(source)
    save_file(
        {k: v.half() if v.is_floating_point() else v for k, v in weights.items()},
        target,
        metadata={"format": "pt"},
    )


def write_card(folder: Path) -> None:
    """Write README.md from the other files of the folder."""
    text = card(folder)
    write_whole(folder / CARD, lambda path: path.write_text(text, encoding="utf-8"))


def card(folder: Path) -> str:
    """Return the model card: data, recipe, error and limits."""
    config = read_config(folder / CONFIG)
    recipe, model, pixels = config["trained"]["recipe"], config["model"], config["preprocessing"]
    (reported, e), (_, halved) = (read_json(folder / EVALUATION) or {}).items()
    trained_on, _, _ = reported.rpartition(" ")  # the name of the split is the last word
    count, size = count_parameters(model) or 0, (folder / WEIGHTS).stat().st_size
    side, license = pixels["image_size"], config["trained"]["license"]
    head = ModelCardData(library_name="aib", license=license, datasets=[e["data"]])
    title = SPECS[trained_on].title if trained_on in SPECS else trained_on
    part = f"{halved['images']:,} of them" if halved["images"] < e["images"] else "the same images"
    notes = "".join(f"- {plain(note)}\n" for note in config["trained"]["notes"])
    return f"""---
{head.to_yaml()}
---
# {plain(folder.name)}

{code(model["name"])} at width {model["width"]:g}: {count / 1e6:.2f} million parameters in half
precision, {size / 1e6:.1f} MB.

- **Data**: the training images of {plain(title)}, {side} x {side} pixels; the share
  held out was {recipe.get("holdout", 0)}.
- **Classes**: {", ".join(map(plain, pixels["class_names"]))}.
- **Recipe**: the last epoch of {code(train_command(recipe))}, on {plain(_hardware(config))}.
- **Error**: {_error(e)} on the {e["images"]:,} {e["split"]} images,
  {describe_samples(e["samples"])}, before the weights were rounded to half precision;
  {_error(halved)} on {part}, {describe_samples(halved["samples"])},
  with these weights. Calibration error {e["calibration_error"]:.2f}%, before.
{notes}
## Limits

- Any picture gets one of these classes, also one that shows none of them. `aib explain` and
  `aib view` show the entropy and warn where it is high; some of these look certain all the same.
- A picture is reduced to {side} x {side} pixels; what is small in it is lost.
{_maps(read_json(folder / RESULT), sha256(folder / WEIGHTS))}"""


def _error(e: Mapping[str, Any]) -> str:
    low, high = e["top1_interval"]
    return f"{e['top1_error']:.2f}% (95% interval {low:.2f} to {high:.2f})"


def _hardware(config: Mapping[str, Any]) -> str:
    return "{device}, torch {torch}".format(**config["trained"]["environment"])


def _maps(study: Mapping[str, Any] | None, weights: str) -> str:
    """Return the metrics of the maps; `weights` is the SHA-256 of the packaged weights."""
    if study is None:
        return ""
    same = study["weights_sha256"] == weights
    precision = "these weights" if same else "the weights before rounding"
    rows = [
        (f"accuracy lost with {name}, points", "{drop:.2f} ({low:.2f} to {high:.2f})".format(
            **{key: 100 * drop[key] for key in ("drop", "low", "high")}))
        for key, name in REPLACED.items()
        if (drop := study["reliance"].get("replaced", {}).get(key))
    ]  # fmt: skip
    if mask := study.get("mask"):
        # A masked model has never met a mean or shuffled map, so these say nothing about it.
        rows = rows[-1:]
        rounded = "{rounded:.2f} ({rounded_low:.2f} to {rounded_high:.2f})".format(**mask)
        rows.append(("accuracy lost with the mask rounded to 0 or 1, points", rounded))
        rows.append(("pixels that the mask closes, %", f"{mask['closed']:.1f}"))
    for source, name in ORDERS.items():
        if (area := study["faithfulness"].get(source, {}).get("insertion")) is not None:
            rows.append((f"insertion, {name}", f"{area:.3f}"))
    verdict = study["reliance"]["verdict"] or "not measured"
    return (
        f"- Does the decision use the map? **{verdict}**. Measured on {study['images']:,} "
        f"{study['split']} images\n  with {precision}; insertion (higher is better) on "
        f"{study['subset_images']}.\n\n"
        + "| | (95% interval) |\n|---|---|\n"
        + "".join(f"| {name} | {value} |\n" for name, value in rows)
    )


def main(argv: list[str] | None = None) -> None:
    """Entry point of `python -m tools.package_model`."""
    parser = argparse.ArgumentParser(prog="python -m tools.package_model", description=__doc__)
    parser.add_argument("run", type=Path, help="a finished run; with --maps a study's folder")
    parser.add_argument("name", help="the model's name in the package, or a folder elsewhere")
    parser.add_argument("--root", help="folder of the data set's official files")
    parser.add_argument("--images", type=int, help="test only so many images, without noise")
    parser.add_argument("--license", default="mit", help="of the weights")
    parser.add_argument("--note", action="append", default=[], help="a line of the card")
    parser.add_argument("--maps", action="store_true", help="replace only the metrics of its maps")
    options = parser.parse_args(argv)
    target = Path(options.name) if "/" in options.name else PACKAGED / options.name
    try:
        if options.maps:
            replace_maps(options.run, target)
        else:
            notes = tuple(options.note)
            package(options.run, target, options.root, options.images, options.license, notes)
    except AibError as error:
        sys.exit(f"tools.package_model: {error}")
    print((target / CARD).read_text())


if __name__ == "__main__":
    main()
