"""The `aib` command: a table from command to module. Each module's `main(argv)` does the work."""

import atexit
import gc
import os
import sys
import traceback
import warnings
from contextlib import suppress
from io import TextIOWrapper

from aib.config.validation import reject_unknown
from aib.errors import AibError, sentence_for
from aib.training.interrupt import Interrupted
from aib.version import __version__

COMMANDS = {
    "models": "list models: parameters, multiply-adds, and the paper's numbers",
    "train": "train a model on one CPU, one GPU or many",
    "eval": "evaluate a trained model: error, calibration, bits",
    "sweep": "train a preset with different settings and seeds, and plot the results",
    "explain": "show the attention map of a model for any image",
    "view": "interactive local page: drop an image, see the map, hide parts of it",
    "interpret": "measure how far maps can be trusted: stability, localisation, reliance, bits",
    "report": "write one HTML page about one or more runs",
    "export": "write a model as one ONNX file that runs without aib",
    "data": "list and fetch data sets",
}

USAGE = "\n".join(
    [
        "usage: aib COMMAND [OPTIONS]",
        "",
        "Image classifiers whose attention you can test: train, measure and explain them.",
        "",
        *(f"  {word:<10} {text}" for word, text in COMMANDS.items()),
        "",
        "`aib COMMAND --help` explains a command with an example; `--debug` shows tracebacks.",
    ]
)


def main(argv: list[str] | None = None) -> int:
    """Run one command and return the exit code."""
    if argv is not None:
        return _read_words(list(argv))
    # The process is ours.
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"
    gc.set_threshold(50_000)  # Python would often search all of torch for garbage
    exit_codes: list[int] = []
    atexit.register(_end_process, exit_codes)  # registered first, it runs last
    exit_codes.append(_read_words(sys.argv[1:]))
    return exit_codes[0]


def _end_process(exit_codes: list[int]) -> None:
    """End the process without clearing its memory object by object: torch has many of them."""
    if exit_codes:  # no exception left `main`
        with suppress(OSError, ValueError):  # a closed pipe: the interpreter reports it
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(exit_codes[0])


def _read_words(words: list[str]) -> int:
    """Run the command that these words name."""
    if isinstance(sys.stdout, TextIOWrapper):
        # A file name may hold bytes that cannot be encoded; print them escaped.
        sys.stdout.reconfigure(errors="backslashreplace")
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    if not words or words[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if words else 2
    if words[0] in ("-V", "--version"):
        print(__version__)
        return 0
    try:
        reject_unknown(words[:1], COMMANDS, "no command", "aib --help")
    except AibError as error:
        print(f"aib: {error}", file=sys.stderr)
        return 2
    return _run(words[0], words[1:], debug)


def _run(command: str, argv: list[str], debug: bool) -> int:
    try:
        # Imported only now: a command does not wait for the imports of others.
        from aib.commands.arguments import run_command

        run_command(command, argv)
        sys.stdout.flush()
    except SystemExit as stop:  # --help, or an error that the parser has printed
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except Interrupted as stopped:
        print(f"aib {command}: {stopped}", file=sys.stderr)
        return 128 + stopped.signal
    except KeyboardInterrupt:
        print(f"aib {command}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader stopped, as in `aib models | head -3`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        return 141  # a shell's exit code for SIGPIPE
    except Exception as error:
        if debug:
            traceback.print_exc()
        expected = sentence_for(error)
        print(f"aib {command}: {expected or f'{type(error).__name__}: {error}'}", file=sys.stderr)
        return 2 if expected else 1
    return 0
