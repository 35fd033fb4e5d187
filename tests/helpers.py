"""Helpers that the tests share."""

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

from aib.files import write_whole
from aib.settings import Settings
from aib.sweep import Plan, parse_grid
from aib.sweep.results import collect_results, write_results

# --- report and sweep ---------------------------------------------------------------------------

VOID_TAGS = {"meta", "link", "img", "br"}
SWEEP_BASE = Settings(data="shapes:count=16", model="tiny_aib_qt", width=0.25, epochs=1, seed=3)
# With what `make_plan` fills in: the tiny family's K and Q, and the profile's modulation.
RESOLVED_BASE = replace(SWEEP_BASE, latent_dim=32, num_anchors=20, modulation="gate")
# That can be trained in seconds.
SMALL_RUN = replace(
    RESOLVED_BASE, data="shapes:count=64", batch_size=32, accelerator="cpu", epochs=2
)


def sweep_plan(*grids: str, base: Settings = RESOLVED_BASE, product=False, seeds=(3,)) -> Plan:
    """The plan of a small sweep."""
    return Plan("mine", base, tuple(map(parse_grid, grids)), product, seeds)


def copied(run: Path, target: Path, without=()) -> Path:
    """A copy of a run's files in the folder `target`."""
    target.mkdir(parents=True)
    for file in run.iterdir():
        if file.name not in without:
            (target / file.name).write_bytes(file.read_bytes())
    return target


def measurement(accuracy, auroc=0.9, bits=20.0, perplexity=10.0):
    """The measurement of a finished run."""
    metrics = {"accuracy": accuracy, "auroc": auroc, "bits": bits, "perplexity": perplexity}
    metrics["accuracy_interval"] = [accuracy - 1, accuracy + 1]
    return {
        "weights_sha256": "",
        "split": "test",
        "images": 400,
        "samples": "4x12",
        "metrics": metrics,
        "train_seconds": 60.0,
        "environment": {"device": "a CPU"},
    }


def write_measurement(folder: Path, name: str, *values, **more) -> None:
    """Write the measurement of a finished run into the sweep in `folder`."""
    text = json.dumps(measurement(*values, **more))
    write_whole(folder / name / "sweep_figures.json", lambda path: path.write_text(text))


def write_sweep(folder: Path) -> Path:
    """Results of beta at three points, K at two, three seeds; one run failed, one is missing."""
    plan = sweep_plan("beta=1e-3,1e-2,1e-1", "K=8,32", seeds=(3, 4, 5))
    plan.write(folder)
    for i, seed in enumerate((3, 4, 5)):
        write_measurement(folder, f"beta=0.001,seed={seed}", 90 + i)
        write_measurement(folder, f"base,seed={seed}", [80, 80, 95][i], bits=[1, 2, 6][i])
    write_measurement(folder, "beta=0.1,seed=3", 50)
    write_measurement(folder, "K=8,seed=3", 70)
    write_measurement(folder, "K=8,seed=4", 71)
    write_results(folder, collect_results(plan, folder, {"beta=0.1,seed=4": "no <b>luck</b>"}))
    return folder


class HtmlPage(HTMLParser):
    """A parsed page: checks nesting; collects images, addresses, tags, ids and SVG labels."""

    def __init__(self, text: str):
        super().__init__()
        self.open, self.images, self.addresses, self.drawings = [], [], [], []
        self.tags, self.ids = set(), set()
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.add(tag)
        self.ids.add(found.get("id"))
        if tag == "img":
            self.images.append(found)
        if tag == "svg":
            self.drawings.append(found)
        self.addresses += [found[k] for k in ("src", "href") if k in found]
        if tag not in VOID_TAGS:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID_TAGS:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
