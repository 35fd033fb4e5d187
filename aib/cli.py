"""The `aib` command: a table from word to module. Each module's `main(argv)` does the work."""

import os
import sys
import traceback
from importlib import import_module
from io import TextIOWrapper

from aib.errors import sentence_for

COMMANDS = {
    "models": "the models: parameters, multiply-adds, the paper's figures beside ours",
    "train": "train a model on one CPU, one GPU or many",
    "eval": "measure a trained model: error, calibration, bits",
    "sweep": "ablations: one preset under many settings, plotted against each knob",
    "explain": "where a model looks: a picture and a record for any image",
    "view": "a local page: drop an image, see the map, hide a block, compare two runs",
    "interpret": "how far the maps can be trusted: stability, localisation, reliance, bits",
    "report": "one HTML page of a run or of several",
    "export": "a model as one ONNX or torch.export file that runs without aib",
    "bench": "speed on this machine, as ratios inside one run",
    "data": "list, fetch, verify and look at data sets",
}

USAGE = "\n".join(
    [
        "usage: aib COMMAND [OPTIONS]",
        "",
        "Attention with an information bottleneck: train, measure and explain image classifiers.",
        "",
        *(f"  {word:<10} {text}" for word, text in COMMANDS.items()),
        "",
        "`aib COMMAND --help` explains one command with an example; `--debug` shows tracebacks.",
    ]
)


def main(argv: list[str] | None = None) -> int:
    """Run one command; the return value is the process's exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if isinstance(sys.stdout, TextIOWrapper):
        # A file's name may hold bytes that no encoding knows; it is no reason to stop.
        sys.stdout.reconfigure(errors="backslashreplace")
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    if not words or words[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if words else 2
    if words[0] == "--version":
        from aib.version import __version__

        print(__version__)
        return 0
    if words[0] not in COMMANDS:
        print(f"aib: no command '{words[0]}'; there are {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    return _run(words[0], words[1:], debug)


def _run(command: str, argv: list[str], debug: bool) -> int:
    try:
        # Imported only now: no command waits for what another one needs.
        import_module(f"aib.commands.{command}").main(argv)
        sys.stdout.flush()
    except SystemExit as stop:  # --help, or a bad option that the parser has explained
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except KeyboardInterrupt:
        print(f"aib {command}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader has seen enough, as in `aib models | head -3`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        return 141  # what a shell says of a program that SIGPIPE ended
    except Exception as error:
        if debug:
            traceback.print_exc()
        foreseen = sentence_for(error)
        print(f"aib {command}: {foreseen or f'{type(error).__name__}: {error}'}", file=sys.stderr)
        return 2 if foreseen else 1
    return 0
