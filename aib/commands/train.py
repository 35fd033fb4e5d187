"""`aib train`: train a model."""

import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.table import Column, Table

from aib.commands.arguments import wide_console
from aib.commands.eval import print_evaluation
from aib.commands.setting_flags import parse_settings, run_name
from aib.config.options import is_library_name
from aib.config.own_images import own_images
from aib.config.presets import DISTILLED, PRESETS, Preset, get_preset
from aib.config.settings import Settings
from aib.errors import AibError
from aib.system.files import quoted


@dataclass(frozen=True)
class Options:
    """Train a model from a preset or from settings.

    Example: aib train shapes_tiny

    Example: aib train cifar10_vgg_aib_qt --beta 0.02 --out runs/beta02

    Example: aib train --data folder:photos

    Example: aib train --teacher lite2:lite2.pth --data folder:unlabelled

    Example: aib train --resume runs/beta02

    The defaults are those without a preset; [*] depends on the model and the data (see
    docs/train.md). --no-NAME switches off what NAME switches on.
    """

    preset: Annotated[
        tyro.conf.Positional[tyro.conf.DisallowNone[str | None]],
        tyro.conf.arg(metavar="PRESET", help="--list prints all.", help_behavior_hint=""),
    ] = None
    out: Annotated[
        tyro.conf.DisallowNone[Path | None],
        tyro.conf.arg(help="Folder of the run.", help_behavior_hint="[runs/NAME-TIME]"),
    ] = None
    resume: Annotated[
        tyro.conf.DisallowNone[Path | None],
        tyro.conf.arg(help="Interrupted run to resume with its settings.", help_behavior_hint=""),
    ] = None
    list: Annotated[
        tyro.conf.FlagCreatePairsOff[bool],
        tyro.conf.arg(help="List the presets and exit.", help_behavior_hint=""),
    ] = False


def main(argv: list[str]) -> None:
    """Run the command."""
    options, given = parse_settings(Options, argv, "aib train")
    if options.list:
        print_presets()
        return
    preset = None if options.preset is None else get_preset(options.preset)
    if options.resume is not None:
        settings = resumed_settings(options, given)
    elif preset is not None:
        settings = preset.settings.updated(**given)
    elif given.get("teacher"):
        settings = student_settings(given)
    elif given.get("data", "").startswith("folder:") and not {"model", "backbone"} & given.keys():
        settings = own_settings(given)
    else:
        settings = Settings().updated(**given)
    if {"model", "backbone"} <= set(given):
        raise AibError("--backbone is a network in place of --model: leave out one of them")
    start(settings, options.resume or options.out or new_folder(preset, settings), options.resume)


def resumed_settings(options: Any, given: dict[str, Any]) -> Settings:
    """The settings of the run to resume, with those given on the command line."""
    from aib.runs.files import read_settings

    if options.preset is not None or options.out is not None:
        raise AibError("--resume trains in its own folder by its own settings: leave out the rest")
    settings = read_settings(options.resume)
    from aib.training.train import names_function

    for name in ("backbone", "teacher"):
        value = getattr(settings, name)
        if value and name not in given and (name == "backbone" or names_function(value)):
            raise AibError(
                f"this run needs --{name} {value}: aib runs no code because a file names it"
            )
    return settings.updated(**given)


def own_settings(given: dict[str, Any]) -> Settings:
    """Settings for a user's own images: the packaged model learns their classes."""
    from torch.cuda import is_available

    from aib.data import count_images, with_size
    from aib.models.weights import CONFIG, read_config
    from aib.runs.pretrained import find_model

    folder = find_model(None)
    config = read_config(folder / CONFIG)
    data = with_size(given["data"], config["preprocessing"]["image_size"])
    gpu = given.get("accelerator") != "cpu" and is_available()
    changes = given | {"data": data}
    s = own_images(folder.name, config["model"], count_images(data), gpu, changes)
    start_from = f" --init {quoted(s.init)}" if s.init else ""
    print(f"no --model given: --model {s.model}{start_from} --data {quoted(s.data)}")
    return s


def student_settings(given: dict[str, Any]) -> Settings:
    """Settings for the student of a teacher: by default the same network, masked."""
    from aib.training.train import names_function

    teacher = given["teacher"]
    family = teacher.partition(":")[0]
    if not {"model", "backbone"} & set(given):
        own = family not in ("lite0", "lite2")
        if own and not (names_function(teacher) or is_library_name(teacher)):
            raise AibError("name the model that learns, such as --model lite2_masked")
        student = {"model": teacher if own else f"{family}_masked", "masked": own}
        if own and not is_library_name(teacher):
            student["backbone"] = teacher
        given = student | given
    return DISTILLED.updated(**given)


def new_folder(preset: Preset | None, settings: Settings) -> Path:
    """A folder in runs/ that is named by preset or model, and by the time."""
    name = run_name(preset, settings) + "-evaluator" * settings.evaluator
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    return Path("runs") / f"{name}-{stamp}"


def start(settings: Settings, folder: Path, resume: Path | None) -> None:
    """Train, then print the results on test or held-out images."""
    from aib.runs.files import measured_split
    from aib.training.interrupt import Interrupted
    from aib.training.progress import make_reporter
    from aib.training.train import train

    try:
        trained = train(settings, folder, resume=resume is not None, report=make_reporter())
    except Interrupted as stopped:
        print(f"aib train: {stopped}", file=sys.stderr)
        raise SystemExit(128 + stopped.signal) from None
    if trained is None:  # not the first process
        return
    split = trained.evaluation.split
    what = "the test set" if split == "test" else "the held-out images"
    print(f"trained in {trained.seconds:.0f} s; results of the last epoch on {what}:")
    print_evaluation(trained.evaluation)
    print(f"the run is in {trained.folder}")
    if split != measured_split(settings.data):
        print(f"the test images were not used; `aib eval {quoted(trained.folder)}` evaluates them")


def print_presets() -> None:
    """Print a table of the presets: name, model, data, the paper's error."""
    columns = ("preset", "model", "data", "epochs", "paper, % error")
    table = Table(*(Column(name, no_wrap=True) for name in columns), "description")
    for preset in PRESETS.values():
        s = preset.settings
        error = "-" if preset.paper_error is None else f"{preset.paper_error:.2f}"
        table.add_row(preset.name, s.model, s.data, str(s.epochs), error, preset.about)
    wide_console().print(table)
