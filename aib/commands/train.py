"""`aib train`: train a model."""

import re
import sys
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Column, Table

from aib.commands.arguments import parse, run_name, take_preset, wide_console
from aib.commands.eval import print_evaluation
from aib.config.presets import PRESETS
from aib.config.settings import Settings
from aib.errors import AibError
from aib.system.files import quoted

LITTLE = 0.05  # of each image: less, and a map that was not trained closes what the class needs


@dataclass(frozen=True)
class Options:
    """Train a model from a preset or from settings.

    Example: aib train shapes_tiny

    Example: aib train cifar10_vgg_aib_qt --beta 0.02 --out runs/beta02

    Example: aib train --data folder:photos

    Example: aib train --data folder:photos:image_size=64 --model vgg_aib_qt --epochs 30

    Example: aib train --data folder:photos --model timm:resnet50 --masked --pretrained --lr 0.01
    --schedule cosine --epochs 30

    Example: aib train shapes_tiny --evaluator --out runs/evaluator

    Example: aib train --resume runs/beta02
    """

    settings: Annotated[Settings, tyro.conf.arg(name="")] = field(default_factory=Settings)
    out: Path | None = None
    """Folder of the run (default: a name with the time, in runs/)."""
    resume: Path | None = None
    """Folder of an interrupted run to resume with its own settings."""
    list: bool = False
    """List the presets and exit."""


COMMAND = Options


def main(argv: list[str]) -> None:
    """Run the command. PRESET, if given, is the first argument."""
    preset, argv = take_preset(argv)
    resumed = _value_of("--resume", argv)
    default = Settings() if preset is None else preset.settings
    if resumed is not None:
        if preset is not None:
            raise AibError(f"--resume uses the settings of {resumed}; leave out the preset")
        from aib.runs.files import read_settings

        default = read_settings(Path(resumed))
        if default.backbone is not None and _value_of("--backbone", argv) is None:
            raise AibError(
                f"this run needs --backbone {default.backbone}: aib runs no code because a file "
                "names it"
            )
    if None not in (_value_of("--model", argv), _value_of("--backbone", argv)):
        raise AibError("--backbone is a network in place of --model: leave out one of them")
    own = preset is None and resumed is None and _needs_model(argv)
    if own:
        from torch.cuda import is_available

        from aib.config.own_images import largest_size, own_images
        from aib.data import at_most

        gpu = _value_of("--accelerator", argv) != "cpu" and is_available()
        data, size = at_most(_value_of("--data", argv) or "", largest_size(gpu))
        given = _given(argv)
        default = own_images(gpu, size, not given & {"--evaluator", "--init", "--freeze"})
        if "--evaluator" in given:  # it must not know the map
            default = default.updated(init=None)
    options: Options = parse(Options, argv, "aib train [PRESET]", default=Options(settings=default))
    if options.list:
        print_presets()
        return
    if own:
        s = replace(options.settings, data=data)
        options = replace(options, settings=s)
        start_from = f" --init {quoted(s.init)}" if s.init else ""
        frozen = f" --freeze {' '.join(s.freeze)}" if s.freeze else ""
        print(
            f"no --model given and {'a' if gpu else 'no'} GPU: --model {s.model}{start_from}"
            f"{frozen} --data {quoted(s.data)}"
        )
        if s.evaluator and s.init is None and s.model.startswith("vgg"):
            print(
                "from random weights this evaluator needs many images: --init vgg16:PATH starts it "
                "from ImageNet's VGG-16"
            )
    chosen = _given(argv) & {"--lr", "--lr-backbone", "--epochs", "--optimizer"}
    if options.settings.pretrained and preset is None and resumed is None and not chosen:
        s = options.settings
        print(
            f"lr {s.lr:g} and {s.epochs} epochs are for random weights: pretrained ones need less, "
            "such as --lr 0.01 --schedule cosine --epochs 30"
        )
    name = run_name(preset, options.settings) + "-evaluator" * options.settings.evaluator
    start(options, re.sub("[:/]", "-", name))


def start(options: Options, name: str) -> None:
    """Train, then print the results on test or held-out images."""
    if options.resume is not None and options.out is not None:
        raise AibError(f"--resume trains in {options.resume} itself; leave out --out")
    from aib.training.interrupt import Interrupted
    from aib.training.progress import make_reporter
    from aib.training.train import train

    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    folder = options.resume or options.out or Path("runs") / f"{name}-{stamp}"
    try:
        trained = train(
            options.settings, folder, resume=options.resume is not None, report=make_reporter()
        )
    except Interrupted as stopped:
        print(f"aib train: {stopped}", file=sys.stderr)
        raise SystemExit(128 + stopped.signal) from None
    if trained is None:  # not the first process
        return
    split = trained.evaluation.split
    what = "the test set" if split == "test" else "the held-out images"
    print(f"trained in {trained.seconds:.0f} s; results of the last epoch on {what}:")
    print_evaluation(trained.evaluation)
    area = trained.evaluation.area
    if area is not None and area < LITTLE and "propose" in options.settings.freeze:
        print(
            "the map opens little of these images and was not trained on them: "
            "`--freeze body` trains it as well, and takes longer"
        )
    print(f"the run is in {trained.folder}")
    if split != options.settings.measured_split:
        print(f"the test images were not used; `aib eval {quoted(trained.folder)}` evaluates them")


def print_presets() -> None:
    """Print a table of the presets: name, model, data, the paper's error and ours."""
    columns = ("preset", "model", "data", "epochs", "paper, % error", "ours, % error")
    table = Table(*(Column(name, no_wrap=True) for name in columns), "description")
    for preset in PRESETS.values():
        s = preset.settings
        error = "-" if preset.paper_error is None else f"{preset.paper_error:.2f}"
        ours = "-" if preset.ours is None else str(preset.ours)
        table.add_row(preset.name, s.model, s.data, str(s.epochs), error, ours, preset.about)
    wide_console().print(table)


def _needs_model(argv: list[str]) -> bool:
    """Whether the data is the user's own, and no model is named for it."""
    named = _given(argv) & {"--model", "--backbone"}
    if named or ":" not in (data := _value_of("--data", argv) or ""):
        return False
    from aib.data import is_own

    return is_own(data)


def _given(argv: list[str]) -> set[str]:
    """The names of the options that are given, before they are parsed."""
    return {word.partition("=")[0] for word in argv}


def _value_of(option: str, argv: list[str]) -> str | None:
    """The value of an option that decides the defaults of the others, before they are parsed."""
    for i, word in enumerate(argv):
        if word == option and i + 1 < len(argv):
            return argv[i + 1]
        if word.startswith(option + "="):
            return word.partition("=")[2]
    return None
