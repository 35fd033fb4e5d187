"""Turn a run into a model of the package: `python -m tools.package_model RUN NAME`.

The weights are stored in half precision, and the error on the model card is measured with these.
The metrics of the maps are the run's own, in full precision. Two commands measure them again with
the packaged weights:

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
from aib.errors import AibError
from aib.evaluation import evaluate
from aib.files import read_json, sha256, write_json, write_whole
from aib.interpret.stored import RESULT
from aib.runs import EVALUATION, PACKAGED, open_runs
from aib.weights import CONFIG, WEIGHTS, read_config
from tools.results.collect import count_parameters, interpreted
from tools.results.command import portable, train_command

REPLACED = {
    "mean": "the map's mean everywhere",
    "shuffled": "its positions shuffled",
    "another": "another image's map",
}
ORDERS = {"own": "in the map's order", "random": "random order", "centre": "from the centre"}


def package(run: Path, target: Path, root: str | None = None) -> None:
    """Write weights, config, results and model card of a finished run into `target`."""
    [opened] = open_runs((run,))
    settings = opened.settings
    if settings is None:
        raise AibError(f"{run} is a saved model, not a run: it has no recipe for the card")
    trained = {
        "recipe": settings.recipe(),
        "environment": portable(read_config(run / CONFIG)["environment"]),
    }
    with TemporaryDirectory() as scratch:
        halved = Path(scratch)
        halve(run / WEIGHTS, halved / WEIGHTS)
        write_json(halved / CONFIG, opened.model.config() | {"trained": trained}, indent=1)
        [small] = open_runs((halved,))
        measured = evaluate(small.model, opened.images(root=root))
        write_json(halved / EVALUATION, {settings.reported: measured.to_dict()}, indent=1)
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
    [(reported, e)] = (read_json(folder / EVALUATION) or {}).items()
    trained_on, _, _ = reported.rpartition(" ")  # the name of the split is the last word
    low, high = e["top1_interval"]
    count, size = count_parameters(model) or 0, (folder / WEIGHTS).stat().st_size
    side = pixels["image_size"]
    head = ModelCardData(library_name="aib", license="mit", datasets=[e["data"]])
    return f"""---
{head.to_yaml()}
---
# {plain(folder.name)}

{code(model["name"])} at width {model["width"]:g}: {count / 1e6:.2f} million parameters in half
precision, {size / 1e6:.1f} MB.

- **Data**: the training images of {plain(trained_on)}, {side} x {side} pixels; a share
  of {recipe.get("holdout", 0)} was held out.
- **Classes**: {", ".join(map(plain, pixels["class_names"]))}.
- **Recipe**: the last epoch of {code(train_command(recipe))}, on {plain(_hardware(config))}.
- **Error**: {e["top1_error"]:.2f}% on the {e["images"]:,} {e["split"]} images (95% interval
  {low:.2f} to {high:.2f}), {e["samples"]} samples, measured with these weights. Calibration error
  {e["calibration_error"]:.2f}%.

## Limits

- Any picture gets one of these classes, also one that shows none of them.
- A picture is reduced to {side} x {side} pixels; what is small in it is lost.
- The map shows where features pass. Whether the decision needs it is measured separately.
{_maps(read_json(folder / RESULT), sha256(folder / WEIGHTS))}"""


def _hardware(config: Mapping[str, Any]) -> str:
    return "{device}, torch {torch}".format(**config["trained"]["environment"])


def _maps(study: Mapping[str, Any] | None, weights: str) -> str:
    """Return the metrics of the maps; `weights` is the SHA-256 of the packaged weights."""
    if study is None:
        return ""
    precision = "these weights" if study["weights_sha256"] == weights else "full precision"
    rows = [
        (f"accuracy lost with {name}, points", "{drop:.2f} ({low:.2f} to {high:.2f})".format(
            **{key: 100 * drop[key] for key in ("drop", "low", "high")}))
        for key, name in REPLACED.items()
        if (drop := study["reliance"].get("replaced", {}).get(key))
    ]  # fmt: skip
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
    parser.add_argument("--maps", action="store_true", help="replace only the metrics of its maps")
    options = parser.parse_args(argv)
    target = Path(options.name) if "/" in options.name else PACKAGED / options.name
    try:
        if options.maps:
            replace_maps(options.run, target)
        else:
            package(options.run, target, options.root)
    except AibError as error:
        sys.exit(f"tools.package_model: {error}")
    print((target / CARD).read_text())


if __name__ == "__main__":
    main()
