"""`aib eval`: evaluate a trained model."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from aib.commands.arguments import one_run, parse_samples, print_json
from aib.config.validation import Precision, check_seed
from aib.errors import AibError

if TYPE_CHECKING:
    from aib.evaluation.error import Evaluation


def eval_(
    folder: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[RUN]")] = None,
    /,
    run: Path | None = None,
    data: str | None = None,
    split: str | None = None,
    root: str | None = None,
    backbone: str | None = None,
    teacher: str | None = None,
    samples: str | None = None,
    deterministic: bool = False,
    batch_size: int | None = None,
    precision: Precision = "fp32",
    device: str | None = None,
    workers: int = 2,
    seed: int = 0,
    json: bool = False,
) -> None:
    """Evaluate a run on a data set: error with intervals, likelihood, calibration, bits, speed.

    Example: aib eval runs/cifar10 --data stl10 --samples 4x12

    Args:
        folder: the same as --run.
        run: a run, a saved model, hf:owner/name[@REVISION], or a packaged model by name.
        data: data set (default: that of the run).
        split: train, val or test (default: test, or held-out images if there are none).
        root: folder of the data set's official files.
        backbone: my_module:build, for runs of a network of your own; never imported unasked.
        teacher: as of aib train, to measure the agreement with it (default: that of the run).
        samples: attention x latent samples, such as 4x12 (default: the model's profile).
        deterministic: use the means instead of samples.
        batch_size: images per batch (default: what fits the memory).
        precision: precision of the forward pass.
        device: cpu or cuda (default: cuda if available).
        workers: processes that decode images.
        seed: seed of the noise.
        json: print JSON.
    """
    from aib.evaluation.error import evaluate
    from aib.evaluation.matching import match_classes
    from aib.runs.files import write_evaluation
    from aib.runs.run import open_run
    from aib.system.environment import environment
    from aib.system.progress import progress_bar
    from aib.training.train import open_teacher

    check_seed(seed)
    if (chosen := one_run(folder, run)) is None:
        raise AibError("name a run: aib eval RUN")
    opened = open_run(chosen, device, backbone)
    images = opened.images(data, split, root)
    results, reference = [], None
    guide = open_teacher(opened.settings, images, teacher)
    if guide is not None:
        guide.to(next(opened.model.parameters()).device)
        if data is None or not images.labelled:
            images = guide.relabel(images)
    for classes, labelled in match_classes(opened.model, images):
        with progress_bar(len(labelled) * (1 if guide is None else 2)) as tick:
            if guide is not None:
                labelled, reference = guide.label(labelled, workers, tick)
            found = evaluate(
                opened.model,
                labelled,
                samples=parse_samples(samples) if samples else None,
                deterministic=deterministic,
                batch_size=batch_size,
                precision=precision,
                workers=workers,
                seed=seed,
                classes=classes,
                reference=reference,
                tick=tick,
            )
        results.append(replace(found, weights_sha256=opened.checksum))
    if json:
        report = {"evaluations": [r.to_dict() for r in results], "environment": environment()}
        print_json(report)
    else:
        for result in results:
            print_evaluation(result)
    # After printing: results are not lost if the folder cannot be written.
    name = f"{data or (opened.settings.data if opened.settings else images.name)} {images.split}"
    plain = not (samples or deterministic or seed) and precision == "fp32"
    held_out = opened.settings is not None and opened.settings.holdout > 0
    for result in results:
        how = f"{result.classes} {result.samples} over {result.averaged}, {precision}, seed {seed}"
        # A run with held-out images gets its own test result here, others at the end of training.
        own = plain and held_out and result.classes == "own"
        write_evaluation(opened.output, name if own else f"{name} {how}", result.to_dict())


def print_evaluation(e: "Evaluation") -> None:
    from aib.evaluation.error import MATCHING, describe_samples, metric_texts
    from aib.figures.table import NOTHING

    print(f"{e.data} {e.split}{MATCHING[e.classes]}: {e.images:,} images")
    for heading, text in metric_texts(e).items():
        if text != NOTHING:
            print(f"  {heading:<31}{text}")
    if e.warning:
        print(f"  warning: {e.warning}")
    samples = describe_samples(e.samples)
    samples += "" if e.samples == "deterministic" else f", averaged over {e.averaged}"
    print(f"  {samples}; {e.images_per_second:,.0f} images/s; in brackets 95% intervals")


COMMAND = eval_
