"""Turn a run into a model that comes with the package: `python -m aib.package RUN NAME`.

The weights are stored in half precision; what the card says of them was measured with those.
"""

import argparse
import json
import sys
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory

from safetensors.torch import load_file, save_file

from aib.checkpoint import write_whole
from aib.errors import AibError
from aib.evaluate import Evaluation, evaluate
from aib.opened import Opened, images_for, open_runs
from aib.packaged import FOLDER
from aib.pretrained import CONFIG, WEIGHTS, config_of
from aib.run import EVALUATION, environment
from aib.settings import Settings

CARD = "README.md"
# Where a run was made, not what it learnt.
MACHINE = {"root", "workers", "accelerator", "devices", "nodes", "log_every", "checkpoint_every"}


def package(run: Path, target: Path, root: str | None = None) -> Evaluation:
    """Write weights, config, figures and card of a finished run into `target`."""
    [opened] = open_runs((run,))
    if opened.settings is None:
        raise AibError(f"{run} is a saved model, not a run: there is no recipe for its card")
    with TemporaryDirectory() as scratch:
        halved = Path(scratch)
        _halve(run / WEIGHTS, halved / WEIGHTS)
        (halved / CONFIG).write_text(json.dumps(config_of(opened.model), indent=2) + "\n")
        [small] = open_runs((halved,))
        measured = evaluate(small.model, images_for(opened, root=root))
        figures = {
            opened.settings.reported: measured.to_dict(),
            "environment": environment(),
            "trained": json.loads((run / CONFIG).read_text())["environment"],
            "settings": recipe(opened.settings),
        }
        for name in (WEIGHTS, CONFIG):
            content = (halved / name).read_bytes()
            write_whole(target / name, lambda path, content=content: path.write_bytes(content))
    text = json.dumps(figures, indent=2) + "\n"
    write_whole(target / EVALUATION, lambda path: path.write_text(text))
    megabytes = (target / WEIGHTS).stat().st_size / 1e6
    words = card(target.name, opened, measured, megabytes)
    write_whole(target / CARD, lambda path: path.write_text(words))
    return measured


def recipe(settings: Settings) -> dict[str, object]:
    """The settings that are not the defaults, without those of the machine."""
    values, plain = settings.to_dict(), Settings().to_dict()
    names = [f.name for f in fields(settings) if f.name not in MACHINE]
    return {name: values[name] for name in names if values[name] != plain[name]}


def card(name: str, opened: Opened, measured: Evaluation, megabytes: float) -> str:
    """What a reader should know before trusting it."""
    s = opened.settings
    assert s is not None
    low, high = measured.top1_interval
    count = sum(p.numel() for p in opened.model.parameters())
    classes = ", ".join(opened.model.preprocessing.class_names)
    options = " ".join(f"--{k.replace('_', '-')} {v}" for k, v in recipe(s).items())
    side = opened.model.preprocessing.image_size
    return f"""---
library_name: aib
license: mit
datasets: [{s.data}]
---
# {name}

`{opened.name}` at width {s.width:g}: {count / 1e6:.2f} million parameters in half precision,
{megabytes:.1f} MB.

- **Data**: the training images of {s.data}; images of {side} x {side} pixels.
- **Classes**: {classes}.
- **Recipe**: {s.epochs} epochs, last epoch, seed {s.seed}. Settings that differ from the
  defaults of `aib train`: `{options}`.
- **Error**: {measured.top1_error:.2f}% on the {measured.images:,} {measured.split} images
  (95% interval {low:.2f} to {high:.2f}), {measured.samples} samples, measured with these weights.
  Calibration error {measured.calibration_error:.2f}%. All figures: `{EVALUATION}`.

## Limits

- Any picture gets one of the {opened.model.num_classes} classes, also one that shows none of them.
- A picture is reduced to {side} x {side} pixels; what is small in it is lost.
- The map shows where features pass to the decision, not why. On natural images it follows edges
  and texture as well as objects; `docs/results.md` has the figures.
"""


def _halve(source: Path, target: Path) -> None:
    weights = load_file(source)
    save_file(
        {k: v.half() if v.is_floating_point() else v for k, v in weights.items()},
        target,
        metadata={"format": "pt"},
    )


def main(argv: list[str] | None = None) -> None:
    """Entry point of `python -m aib.package`."""
    parser = argparse.ArgumentParser(prog="python -m aib.package", description=__doc__)
    parser.add_argument("run", type=Path, help="a finished run")
    parser.add_argument("name", help="its name in the package, or a folder elsewhere")
    parser.add_argument("--root", help="folder of the data set's official files")
    options = parser.parse_args(argv)
    target = Path(options.name) if "/" in options.name else FOLDER / options.name
    try:
        measured = package(options.run, target, options.root)
    except AibError as error:
        sys.exit(f"aib.package: {error}")
    size = (target / WEIGHTS).stat().st_size / 1e6
    print(f"{target}: {size:.1f} MB, {measured.top1_error:.2f}% error")


if __name__ == "__main__":
    main()
