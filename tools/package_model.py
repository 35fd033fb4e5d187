"""Turn a run into a model of the package: `python -m tools.package_model RUN NAME`.

The weights are stored in half precision. The card states the run's own error, measured before, and
the error with these weights: of all images, or with `--images` of some, without noise. For images
without labels it is the disagreement with the teacher; `--data` names other images, on which
`aib eval RUN --data` has measured the run. Sources and licences belong into `--note`.

The verdict on the maps is the run's own. Two commands measure it again with the packaged weights:

    aib interpret aib/pretrained_models/NAME --data DATA --split val ... --out STUDY
    python -m tools.package_model --maps STUDY NAME
"""

import argparse
import shutil
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from safetensors.torch import load_file, save_file

from aib.config.presets import PRESETS
from aib.config.settings import Settings
from aib.data.specs import SPECS, imagenet_classes
from aib.data.split import sample_indices
from aib.errors import AibError
from aib.evaluation.error import Evaluation, evaluate, read_evaluations
from aib.interpret.stored import RESULT
from aib.models.weights import CONFIG, EVALUATION, WEIGHTS, read_config
from aib.report.card import CARD, code, model_card, plain
from aib.runs.pretrained import PACKAGED
from aib.runs.run import Run, open_run
from aib.system.files import (
    quoted,
    read_json,
    sha256,
    without_folders,
    write_json,
    write_text,
    write_whole,
)
from aib.training.train import open_teacher
from tools.results.collect import portable, reported

HALVED = "half precision"  # in the name of the evaluation with the packaged weights


def package(
    run: Path,
    target: Path,
    root: str | None = None,
    images: int | None = None,
    license: str = "mit",
    notes: tuple[str, ...] = (),
    data: str | None = None,
) -> None:
    """Write weights, config, results and model card of a finished run into `target`."""
    opened = open_run(run)
    settings = opened.settings
    if settings is None:
        raise AibError(f"{run} is a saved model, not a run: it has no recipe for the card")
    evaluations = read_json(run / EVALUATION) or {}
    measured = [name for name in evaluations if data and name.startswith(f"{data} ")]
    name = measured[0] if measured else reported(run, settings, evaluations)
    if data and not measured:
        raise AibError(f"{run} was not evaluated on {data}: run `aib eval {run} --data {data}`")
    trained = {
        "recipe": without_folders(settings.recipe()),
        "license": license,
        "notes": list(notes),
        "environment": portable(read_config(run / CONFIG)["environment"]),
    }
    names, wordnet = opened.model.preprocessing.class_names, imagenet_classes()
    if names == tuple(wordnet.values()):
        trained["wordnet"] = list(wordnet)  # of each class, in the order of the indices
    with TemporaryDirectory() as scratch:
        halved = Path(scratch)
        halve(run / WEIGHTS, halved / WEIGHTS)
        write_json(halved / CONFIG, opened.model.config() | {"trained": trained}, indent=1)
        small = open_run(halved)
        after = evaluate_again(opened, small, data, root, images)
        both = {
            name: evaluations[name] | {"weights_sha256": None},  # of the weights before rounding
            f"{name}, {HALVED}": replace(after, weights_sha256=small.checksum).to_dict(),
        }
        write_json(halved / EVALUATION, without_folders(both), indent=1)
        if (maps := portable_study(run)) is not None:
            write_json(halved / RESULT, maps, indent=1)
        for path in sorted(halved.iterdir()):
            write_whole(target / path.name, partial(shutil.copyfile, path))
    write_card(target)


def evaluate_again(
    run: Run, small: Run, data: str | None, root: str | None, images: int | None
) -> Evaluation:
    """Evaluate the packaged weights on the run's images or on others, labelled by the teacher."""
    found, reference = run.images(data, root=root), None
    found = found.subset(sample_indices(len(found), images, seed=0))
    if not found.labelled:
        teacher = open_teacher(run.settings, found)
        assert teacher is not None
        found, reference = teacher.label(teacher.relabel(found))
    options: dict[str, Any] = {"deterministic": images is not None, "batch_size": 16}
    return evaluate(small.model, found, reference=reference, **options)


def replace_maps(study: Path, target: Path) -> None:
    """Copy a new `aib interpret` of a packaged model into its folder, and write its card again."""
    maps = portable_study(study)
    if maps is None or maps["weights_sha256"] != sha256(target / WEIGHTS):
        raise AibError(f"{study} holds no {RESULT} of the weights in {target}")
    write_json(target / RESULT, maps, indent=1)
    write_card(target)


def portable_study(run: Path) -> dict[str, Any] | None:
    """Return interpret.json without the machine's folders, or None."""
    found = read_json(run / RESULT)
    if found is None:
        return None
    if evaluator := found.get("evaluator"):
        found["evaluator"] = evaluator | {"run": without_folders(evaluator["run"])}
    notes = [note.replace(str(Path.home()), "~") for note in found["notes"]]  # may name a folder
    kept = {k: v for k, v in found.items() if k != "run"}
    return kept | {"notes": notes, "environment": portable(found["environment"])}


def train_command(name: str, recipe: dict[str, Any]) -> str:
    """Return the command that trains this recipe, by the preset of the model's name if any."""
    preset = PRESETS[name].recipe if name in PRESETS else {}
    changed = {k: v for k, v in recipe.items() if preset.get(k) != v}
    return " ".join(["aib", "train", *([name] if preset else []), *option_words(changed)])


def option_words(settings: dict[str, Any]) -> list[str]:
    """Settings as options of `aib train`."""
    words: list[str] = []
    for name, value in settings.items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        else:
            values = value if isinstance(value, list | tuple) else [value]
            words += [f"--{option}", *map(quoted, values)]
    return words


def halve(source: Path, target: Path) -> None:
    """Copy the weights in half precision; those too large for it, such as a variance, stay."""
    weights = load_file(source)
    halved = {
        name: value.half()
        for name, value in weights.items()
        if value.is_floating_point() and value.half().isfinite().all()
    }
    save_file(weights | halved, target, metadata={"format": "pt"})


def write_card(folder: Path) -> None:
    """Write README.md."""
    write_text(folder / CARD, card(folder))


def card(folder: Path) -> str:
    """The model card, from the other files of the folder."""
    run = open_run(folder, "cpu")
    trained = read_config(folder / CONFIG)["trained"]
    before, halved = read_evaluations(folder / EVALUATION).values()
    name = f"{before.data} {before.split}"
    results = {f"{name}, before rounding to half precision": before, name: halved}
    count, size = sum(p.numel() for p in run.model.parameters()), (folder / WEIGHTS).stat().st_size
    hardware = plain("{device}, torch {torch}".format(**trained["environment"]))
    command = code(train_command(folder.name, trained["recipe"]))
    notes = [
        f"{count / 1e6:.2f} million parameters in half precision, {size / 1e6:.1f} MB.",
        f"Recipe: the last epoch of {command}, on {hardware}.",
        *map(plain, trained["notes"]),
    ]
    data = trained["recipe"].get("data", Settings().data)
    title = SPECS[data].title if data in SPECS else without_folders(data)
    metadata = {"license": trained["license"], "datasets": [before.data]}
    return model_card(run, folder.name, title, results, metadata, notes=notes)


def main(argv: list[str] | None = None) -> None:
    """Entry point of `python -m tools.package_model`."""
    parser = argparse.ArgumentParser(prog="python -m tools.package_model", description=__doc__)
    parser.add_argument("run", type=Path, help="a finished run; with --maps a study's folder")
    parser.add_argument("name", help="the model's name in the package, or a folder elsewhere")
    parser.add_argument("--root", help="folder of the data set's official files")
    parser.add_argument("--data", help="measured on these images, by default the run's own")
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
            more = {"license": options.license, "notes": notes, "data": options.data}
            package(options.run, target, options.root, options.images, **more)
    except AibError as error:
        sys.exit(f"tools.package_model: {error}")
    print((target / CARD).read_text())


if __name__ == "__main__":
    main()
