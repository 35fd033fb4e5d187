"""Turn a run into a model of the package: `python -m tools.package_model RUN NAME`.

With `--mix` the classifier's weights first move back towards its teacher's, as far as agrees best
with it on photographs that nothing was trained on; the probability is calibrated there. The weights
are stored in half precision. Sources and licences belong into `--note`. Then measure what is
packaged, and write the card, which lists all of it:

    aib eval aib/pretrained_models/NAME --data DATA ...
    aib interpret aib/pretrained_models/NAME --data DATA ...
    python -m tools.package_model --card NAME
"""

import argparse
import sys
from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor

from aib.config.presets import PRESETS
from aib.config.settings import Settings
from aib.data import load
from aib.data.specs import SPECS, imagenet_classes
from aib.errors import AibError
from aib.evaluation.calibration import fit_calibration
from aib.evaluation.error import evaluate
from aib.interpret.stored import RESULT
from aib.models.classifier import Classifier
from aib.models.weights import CONFIG, EVALUATION, WEIGHTS, read_config
from aib.report.card import CARD, code, model_card, plain
from aib.runs.pretrained import PACKAGED
from aib.runs.run import open_run
from aib.system.files import quoted, read_json, without_folders, write_json, write_text, write_whole
from aib.training.train import load_teacher
from tools.results.collect import portable

SHARES = (0.0, 0.15, 0.3, 0.45, 0.6)  # of the teacher's weights, to choose from


def package(
    run: Path,
    target: Path,
    license: str = "mit",
    notes: tuple[str, ...] = (),
    mixed: Sequence[str] = (),
) -> None:
    """Write weights, config and model card of a finished run into `target`."""
    opened = open_run(run)
    settings = opened.settings
    if settings is None:
        raise AibError(f"{run} is a saved model, not a run: it has no recipe for the card")
    if mixed:
        notes += (mix(opened.model, *mixed),)
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
        opened.model.save_pretrained(scratch)
        write_whole(target / WEIGHTS, partial(halve, Path(scratch) / WEIGHTS))
    write_json(target / CONFIG, opened.model.config() | {"trained": trained}, indent=1)
    for name in (EVALUATION, RESULT):  # of other weights
        (target / name).unlink(missing_ok=True)
    write_card(target)


def mix(model: Classifier, teacher: str, photographs: str) -> str:
    """Give the classifier a share of its teacher's weights, calibrate it, and say what was done.

    What it learnt from few photographs it paid for by forgetting others; the mean of the weights
    before and after keeps most of both. The share is the one with the least KL from the teacher.
    """
    guide = load_teacher(teacher).to(next(model.parameters()).device)
    images, likely = guide.label(guide.relabel(load(f"folder:{photographs}:labels=no", holdout=0)))
    own = deepcopy(model.state_dict())
    guide.start(model)
    first = deepcopy(model.state_dict())
    moved = [n for n in own if n.startswith(("body.", "head.")) and own[n].is_floating_point()]

    def set_share(share: float) -> None:
        model.load_state_dict(own | {n: own[n].lerp(first[n], share) for n in moved})

    def logits(share: float) -> Tensor:
        set_share(share)
        found: list[tuple[Tensor, Tensor]] = []
        evaluate(model, images, deterministic=True, logits=found)
        return torch.cat([values for values, _ in found]).cpu()

    tried = {share: logits(share) for share in SHARES}
    costs = {s: F.kl_div(tried[s].log_softmax(-1), likely, reduction="batchmean") for s in SHARES}
    share = min(costs, key=costs.__getitem__)
    set_share(share)
    model.calibration = fit_calibration(tried[share], likely)
    listed = ", ".join(f"{cost:.3f} at {share:.0%}" for share, cost in costs.items())
    return (
        f"The classifier's weights are {1 - share:.0%} those learnt and {share:.0%} the teacher's: "
        f"KL from the teacher on {len(images):,} other photographs, nats: {listed}."
    )


def write_card(folder: Path) -> None:
    """Write README.md, and the results that it states without folders of this machine."""
    evaluations, study = read_json(folder / EVALUATION), read_json(folder / RESULT)
    if evaluations is not None:
        write_json(folder / EVALUATION, without_folders(evaluations), indent=1)
    if study is not None:
        study["environment"] = portable(study["environment"])
        write_json(folder / RESULT, without_folders(study), indent=1)
    write_text(folder / CARD, card(folder))


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


def card(folder: Path) -> str:
    """The model card, from the other files of the folder."""
    run = open_run(folder, "cpu")
    trained = read_config(folder / CONFIG)["trained"]
    results = {}
    for e in run.evaluations().values():
        kind, _, name = e.data.rpartition(":")
        results[name if kind == "folder" and e.split == "train" else f"{e.data} {e.split}"] = e
    count, size = sum(p.numel() for p in run.model.parameters()), (folder / WEIGHTS).stat().st_size
    hardware = plain("{device}, torch {torch}".format(**trained["environment"]))
    command = code(train_command(folder.name, trained["recipe"]))
    notes = [
        f"{count / 1e6:.2f} million parameters in half precision, {size / 1e6:.1f} MB.",
        f"Recipe: the last epoch of {command}, on {hardware}.",
        *map(plain, trained["notes"]),
    ]
    data = trained["recipe"].get("data", Settings().data)
    title = SPECS[data].title if data in SPECS else "the photographs named below"
    metadata = {"license": trained["license"]} | ({"datasets": [data]} if data in SPECS else {})
    return model_card(run, folder.name, title, results, metadata, notes=notes)


def main(argv: list[str] | None = None) -> None:
    """Entry point of `python -m tools.package_model`."""
    parser = argparse.ArgumentParser(prog="python -m tools.package_model", description=__doc__)
    parser.add_argument("run", type=Path, nargs="?", help="a finished run")
    parser.add_argument("name", help="the model's name in the package, or a folder elsewhere")
    parser.add_argument("--license", default="mit", help="of the weights")
    parser.add_argument("--note", action="append", default=[], help="a line of the card")
    parser.add_argument("--mix", nargs=2, default=(), metavar=("TEACHER", "PHOTOGRAPHS"))
    parser.add_argument("--card", action="store_true", help="only write the card of NAME again")
    options = parser.parse_args(argv)
    target = Path(options.name) if "/" in options.name else PACKAGED / options.name
    try:
        if options.card:
            write_card(target)
        elif options.run is None:
            parser.error("name a run, or --card")
        else:
            package(options.run, target, options.license, tuple(options.note), options.mix)
    except AibError as error:
        sys.exit(f"tools.package_model: {error}")
    print((target / CARD).read_text())


if __name__ == "__main__":
    main()
