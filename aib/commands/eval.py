"""`aib eval`: measure a trained model."""

import json as jsonlib
from pathlib import Path
from typing import Annotated

import tyro

from aib.commands.options import parse, parse_samples
from aib.evaluate import Averaging, Evaluation, evaluate, fit_classes, samples_in_words
from aib.runs import Run, environment, images_for, open_runs
from aib.settings import Precision
from aib.types import check_seed


def eval_(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    /,
    data: str | None = None,
    split: str | None = None,
    root: str | None = None,
    samples: str | None = None,
    deterministic: bool = False,
    average: Averaging | None = None,
    batch_size: int = 256,
    precision: Precision = "fp32",
    compile: bool = False,
    device: str | None = None,
    workers: int = 2,
    seed: int = 0,
    json: bool = False,
) -> None:
    """Measure a run on a data set: errors with intervals, likelihood, calibration, bits, speed.

    Example: aib eval runs/cifar10 --data stl10 --samples 4x12

    Args:
        run: folder of a run or of a saved model.
        data: data set; the run's own if not given.
        split: train, val or test; what was kept for testing if not given.
        root: folder of the data set's official files.
        samples: attention x latent samples, such as 4x12; the model's profile decides otherwise.
        deterministic: take the means instead of samples.
        average: over probabilities or over logits; the model's profile decides otherwise.
        batch_size: images at a time.
        precision: arithmetic of the forward pass.
        compile: torch.compile the model.
        device: cpu or cuda; whatever there is if not given.
        workers: processes that decode large images.
        seed: of the noise.
        json: print JSON.
    """
    check_seed(seed)
    [opened] = open_runs((run,), device)
    images = images_for(opened, data, split, root)
    results = [
        evaluate(
            opened.model,
            labelled,
            samples=parse_samples(samples) if samples else None,
            deterministic=deterministic,
            average=average,
            batch_size=batch_size,
            precision=precision,
            compile=compile,
            workers=workers,
            seed=seed,
            classes=way,
        )
        for way, labelled in fit_classes(opened.model, images)
    ]
    if json:
        report = {"evaluations": [r.to_dict() for r in results], "environment": environment()}
        print(jsonlib.dumps(report, indent=2))
    else:
        for result in results:
            print_evaluation(result)
    # Printed first: figures that took a while should not be lost to a folder that takes no file.
    name = data or (opened.settings.data if opened.settings else images.name)
    for result in results:
        how = f"{result.classes} {result.samples} over {result.averaged}, {precision}, seed {seed}"
        Run(run).write_evaluation(f"{name} {images.split} {how}", result.to_dict())


def print_evaluation(e: Evaluation) -> None:
    """The figures for people, with what they were measured on."""
    reading = {
        "own": "",
        "raw": ", class numbers taken as they are",
        "matched": ", classes matched by name",
    }
    print(f"{e.data} {e.split}{reading[e.classes]}: {e.images:,} images")
    low, high = e.top1_interval
    print(f"  top-1 error        {e.top1_error:6.2f}%  (95% interval {low:.2f} to {high:.2f})")
    if e.top5_error is not None and e.top5_interval is not None:
        low, high = e.top5_interval
        print(f"  top-5 error        {e.top5_error:6.2f}%  (95% interval {low:.2f} to {high:.2f})")
    print(f"  log-likelihood     {-e.nll:6.3f} nats an image")
    print(f"  calibration error  {e.calibration_error:6.2f}%")
    if e.kl_bits is not None:
        print(f"  latent             {e.kl_bits:6.1f} bits an image (KL to the prior)")
    drawn = samples_in_words(e.samples)
    print(f"  {drawn}, averaged over {e.averaged}; {e.images_per_second:,.0f} images/s")


def main(argv: list[str]) -> None:
    """Entry point of the command table."""
    parse(eval_, argv, "aib eval")
