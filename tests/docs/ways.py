"""How each command of the pages is run: what makes it small, or why it cannot run here."""

import re
from dataclasses import dataclass
from typing import Literal

from tests.docs.blocks import Command

# here: in this process; process: in one of its own; parse: read and checked, not carried out
How = Literal["here", "process", "parse", "make", "example", "tool", "view"]


@dataclass(frozen=True)
class Way:
    """How to run all commands that the pattern matches from their beginning."""

    pattern: str
    how: How = "here"
    add: str = ""  # options that make it small
    slow: str = ""  # why it is left to `make test-all`
    why_not: str = ""  # for `parse`: what is missing here
    needs: tuple[str, ...] = ()  # packages of an extra; without them it is skipped
    code: int = 0
    small_package: bool = False  # with a narrow model in place of the packaged one


SMALL = "--epochs 1 --batch-size 4 --width 0.0625 --accelerator cpu --workers 0"
NAMED = "--epochs 1 --batch-size 4 --accelerator cpu --workers 0"
TINY = "--data shapes:count=64 --batch-size 16 --width 0.25 --epochs 1"
ONNX = ("onnx", "onnxscript", "onnxruntime")

# The first that matches counts.
WAYS = (
    Way("make (demo|test|test-all|format|docs)$", "make"),
    Way("pip install ", "parse", why_not="needs the network"),
    Way(r"python examples/\w+\.py", "example"),
    Way("python -m tools.results ", "tool"),
    Way("srun ", "parse", why_not="needs SLURM"),
    Way("torchrun .*--nnodes 2", "parse", why_not="needs two machines"),
    Way("torchrun .*--accelerator cpu", "process", TINY + " --out run", slow="two processes"),
    Way("aib train .*--devices 8", "parse", why_not="needs eight GPUs"),
    Way("aib train .*--accelerator cpu --devices 2", "process", TINY, slow="two processes"),
    Way("aib train --list"),
    Way("aib train --model timm:", add=NAMED, slow="seconds"),
    Way("aib train --backbone ", add=NAMED, slow="seconds"),
    Way("aib eval runs/own ", "parse", why_not="needs the run of the command before it"),
    Way("aib train shapes_tiny --evaluator", add=TINY, slow="seconds"),
    Way("aib train --data folder:photos", add=SMALL, small_package=True),
    Way(r"aib train \w+_fast", add=SMALL + " --precision fp32 --no-compile", slow="seconds"),
    Way("aib train ", add=SMALL, slow="seconds, and there are many of them"),
    Way("aib sweep .*--list"),
    Way("aib sweep .*--quick", "process", TINY, slow="seven runs"),
    Way("aib sweep .*--seeds 3", "parse", why_not="42 runs; the quick sweep is carried out"),
    Way("aib eval ", add="--workers 0"),
    Way("aib explain "),
    Way("aib export .*--format torch-export", slow="seconds"),
    Way("aib export", needs=ONNX, slow="seconds"),
    Way("aib view", "view", slow="starts a server", needs=("gradio",)),
    Way(r"aib interpret runs/\w+ --quick", add="--images 8 --workers 0"),
    Way("aib interpret ", add="--images 8 --subset 2 --workers 0", slow="seconds"),
    Way("aib report ", add="--images 8 --subset 2", slow="seconds"),
    Way("aib models", slow="seconds; test_cli.py has the quick form"),
    Way("aib data verify ", code=2),  # small sets made by hand are not the official ones
    Way("aib data "),  # fetch: the sets are here already; see `test_fetch_for_real`
    Way(
        "aib bench infer .*--device cpu",
        add="--width 0.0625 --seconds 0.1 --batch-size 8 --samples 1x1 --compile False",
        slow="seconds",
    ),
    Way(
        "aib bench infer",
        add="--width 0.0625 --seconds 0.1 --batch-size 8 --no-latency",
        slow="seconds",
    ),
)


def way_of(command: Command) -> Way | None:
    """How to run a command; None if no pattern matches."""
    return next((way for way in WAYS if re.match(way.pattern, command.text)), None)
