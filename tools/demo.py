"""`make demo`: train a masked model on embedded data, judge its maps and write a report.

On two CPU cores, without downloads.
"""

import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import torch

import aib
from aib.cli import main


def run_one_training_step() -> None:
    """Create vgg_aib_qt and run one forward and backward pass."""
    torch.manual_seed(0)
    model = aib.create_model("vgg_aib_qt", num_classes=10)
    terms = aib.aib_loss(model(torch.randn(2, 3, 32, 32)), torch.tensor([3, 7]))
    terms.total.backward()
    print(
        f"vgg_aib_qt, untrained, on one batch: loss {terms.total.item():.2f} nats = "
        f"nll {terms.nll.item():.2f} + 0.01 x KL {terms.kl.item():.0f} + quantisation"
    )


def print_summary(run: Path, seconds: float) -> None:
    """Print the error, how well the maps find the shapes, and the verdict on them."""
    (evaluation,) = json.loads((run / "evaluation.json").read_text()).values()
    found = json.loads((run / "interpret.json").read_text())
    maps, verdict = found["localisation_own_all_images"], found["verdict"]
    print(
        f"\n{seconds // 60:.0f} min {seconds % 60:.0f} s: error {evaluation['top1_error']:.2f}% on "
        f"{evaluation['images']:,} test images; on {found['images']:,} of them the map's AUROC is "
        f"{maps['auroc']:.3f}, its maximum lies on the shape in {100 * maps['pointing']:.1f}%, "
        f"and the verdict on it is '{verdict['name']}'"
    )
    print(
        f"Open {run / 'report.html'} in a browser: what the classifier saw, the maps, the metrics."
    )


def demo() -> int:
    """Print the models, train a masked model on the embedded shapes, judge its maps, report."""
    began = time.monotonic()
    run = Path("runs") / f"demo-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    main(["models"])
    run_one_training_step()
    steps = (
        ["train", "shapes_masked", "--out", str(run)],
        ["interpret", str(run), "--images", "1000", "--quick"],
        ["report", str(run)],
    )
    for words in steps:
        print(f"\n$ aib {' '.join(words)}", flush=True)
        code = main(words)
        if code:
            return code
    print_summary(run, time.monotonic() - began)
    return 0


if __name__ == "__main__":
    sys.exit(demo())
