"""Finished runs with made-up results, and the pages made from them."""

import json
import re
from pathlib import Path

import aib
from aib.config.settings import Settings
from aib.runs.files import measured_split
from tests.helpers import start_run
from tools.results.__main__ import main
from tools.results.pages import pages
from tools.results.read import read_results

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "results"


def write_finished_run(folder: Path, error: float, **settings) -> Path:
    """A run's folder as training leaves it, with a made-up error and no weights."""
    defaults = {"data": "cifar10", "model": "tiny_aib_qt", "root": "/home/someone/data"}
    s = changed(Settings(), **(defaults | settings))
    run = start_run(folder, aib.create_model("tiny_aib_qt"), s)
    run.log({"step": 5, "epoch": 0, "seconds": 30.0})
    run.log({"step": 9, "epoch": 1, "seconds": 90.0})
    split = measured_split(s.data)
    run.write_evaluation(f"{s.data} {split}", evaluation(error, s.data, split))
    return folder


def changed(settings: Settings, **values) -> Settings:
    """The settings with other values, the model's options among them."""
    return Settings.from_dict(settings.to_dict() | values, Path("config.json"))


def evaluation(error: float, data="cifar10", split="test", classes="own", images=10000) -> dict:
    """The result of `aib eval`."""
    return {
        "data": data, "split": split, "classes": classes, "images": images, "top1_error": error,
        "top1_interval": [error - 1, error + 1], "top5_error": None, "top5_interval": None,
        "nll": 0.25, "calibration_error": 1.5, "kl_bits": 8.0, "samples": "4x12",
        "averaged": "probabilities", "images_per_second": 100.0,
    }  # fmt: skip


def pages_of_runs(folder: Path, runs: list[Path], *more: str) -> dict[str, str]:
    """The pages of one results file that holds these runs."""
    out = folder / "stored" / "some.json"
    main(["collect", *map(str, runs), "--title", "t", *more, "--out", str(out)])
    return pages(read_results(out.parent))


def stored(name: str) -> dict:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def pages_of(folder: Path, content: dict) -> dict[str, str]:
    """The pages of one results file with this content."""
    (folder / "some.json").write_text(json.dumps(content))
    return pages(read_results(folder))


def rows(text: str, heading: str) -> list[list[str]]:
    """The cells of the table below a heading, its head first."""
    below = re.split("\n##", text.split(f"## {heading}\n", 1)[1], maxsplit=1)[0]
    lines = [line for line in below.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def records(text: str, heading: str) -> list[dict[str, str]]:
    """The rows of a table as dictionaries."""
    head, *cells = rows(text, heading)
    return [dict(zip(head, row, strict=True)) for row in cells]
