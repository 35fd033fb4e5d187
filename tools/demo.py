"""`make demo`: from nothing to a page of maps, on two CPU cores and without a download."""

import sys
from datetime import UTC, datetime
from pathlib import Path

import torch

import aib
from aib.cli import main


def step_of_the_papers_model() -> None:
    """Make vgg_aib_qt and send one batch through it, forth and back."""
    torch.manual_seed(0)
    model = aib.create_model("vgg_aib_qt", num_classes=10)
    terms = aib.aib_loss(model(torch.randn(2, 3, 32, 32)), torch.tensor([3, 7]))
    terms.total.backward()
    print(
        f"vgg_aib_qt, untrained, on one batch: loss {terms.total.item():.2f} nats = "
        f"nll {terms.nll.item():.2f} + 0.01 x KL {terms.kl.item():.0f} + quantisation"
    )


def demo() -> int:
    """The table of models, a training on the embedded shapes, its figures, its page."""
    run = Path("runs") / f"demo-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    main(["models"])
    step_of_the_papers_model()
    steps = (
        ["train", "shapes_tiny", "--out", str(run)],
        ["report", str(run), "--images", "500"],
    )
    for words in steps:
        print(f"\n$ aib {' '.join(words)}", flush=True)
        code = main(words)
        if code:
            return code
    print(f"\nOpen {run / 'report.html'} in a browser: the maps, and how far to trust them.")
    return 0


if __name__ == "__main__":
    sys.exit(demo())
