"""`make demo`: train on embedded data and write a report, on two CPU cores, without downloads."""

import sys
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


def demo() -> int:
    """Print the models, train on the embedded shapes, evaluate, write the report."""
    run = Path("runs") / f"demo-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    main(["models"])
    run_one_training_step()
    steps = (
        ["train", "shapes_tiny", "--out", str(run)],
        ["report", str(run), "--images", "500"],
    )
    for words in steps:
        print(f"\n$ aib {' '.join(words)}", flush=True)
        code = main(words)
        if code:
            return code
    print(f"\nOpen {run / 'report.html'} in a browser to see the maps and their metrics.")
    return 0


if __name__ == "__main__":
    sys.exit(demo())
