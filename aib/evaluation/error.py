"""Evaluation: error, NLL, calibration, KL and the mask's area and bits, with 95% intervals."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import Dataset

from aib.config.profiles import get_profile
from aib.config.validation import Averaging, Precision, check_decided, parse_json
from aib.data import Batches, ImageSet, as_images
from aib.data.batches import default_batch
from aib.evaluation.intervals import wilson_interval
from aib.evaluation.matching import prepare_images
from aib.figures.table import number
from aib.models.classifier import Classifier, check_model
from aib.models.gaussian import kl_to_standard_normal, nats_to_bits, widen
from aib.models.masked import CLOSED, Masked
from aib.models.modes import autocast, seeded_evaluation
from aib.models.types import Output
from aib.system.files import read_json
from aib.system.progress import Tick, silent

BINS = 15  # of confidence, for the calibration error
MANY_CLOSED = 0.05  # of the images: more is a warning
MATCHING = {"own": "", "raw": ", class indices as they are", "matched": ", classes matched by name"}


@dataclass(frozen=True)
class Evaluation:
    """Errors in percent with 95% Wilson intervals; likelihoods in nats; information in bits."""

    data: str
    split: str
    classes: Literal["own", "raw", "matched"]  # whose class numbers the labels are
    images: int
    top1_error: float
    top1_interval: tuple[float, float]
    top5_error: float | None  # None for fewer than 6 classes
    top5_interval: tuple[float, float] | None
    nll: float
    calibration_error: float  # expected calibration error, 15 bins, percent
    kl_bits: float | None
    samples: str  # "4x12" or "deterministic"
    averaged: Averaging
    images_per_second: float = 0.0
    area: float | None = None  # masked models: mean of the mask, 0 to 1
    mask_bits: float | None = None  # masked models: bits per image that the mask lets through
    closed_share: float | None = None  # masked models: images whose mask keeps less than CLOSED
    agreement: float | None = None  # percent of images that have the teacher's prediction
    weights_sha256: str | None = None  # of the run

    def is_of(self, weights_sha256: str) -> bool:
        """Whether it was made with these weights, as far as is known."""
        return self.weights_sha256 in (None, weights_sha256)

    @property
    def warning(self) -> str | None:
        """A warning if many masks are nearly closed: the class is then a guess."""
        return None if self.closed_share is None else closed_warning(self.closed_share)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)


def closed_warning(share: float) -> str | None:
    """A warning if more than a few masks are nearly closed."""
    if share <= MANY_CLOSED:
        return None
    return f"{share:.0%} of the masks keep less than {CLOSED:.0%} of the pixels"


def read_evaluations(path: Path) -> dict[str, Evaluation]:
    """The evaluations in an evaluation.json by name; none if there is no such file."""
    found = read_json(path) or {}
    return {name: parse_json(Evaluation, e, f"{path}: {name}") for name, e in found.items()}


def describe_evaluation(name: str, e: Evaluation) -> str:
    """What was evaluated, by its name in evaluation.json, for a table that has the samples."""
    data, _, how = name.rpartition(f" {e.split}")
    how = how.removeprefix(f" {e.classes} {e.samples}").strip(" ,")
    return f"{data or e.data} {e.split}{MATCHING[e.classes]}" + (f", {how}" if how else "")


class Metric(NamedTuple):
    """How a metric is written."""

    heading: str
    digits: int
    times: float = 1.0


METRICS = {  # by the field of `Evaluation`
    "top1_error": Metric("top-1 error, %", 2),
    "top5_error": Metric("top-5 error, %", 2),
    "agreement": Metric("agreement with the teacher, %", 2),
    "nll": Metric("NLL, nats", 3),
    "calibration_error": Metric("calibration error, %", 2),
    "kl_bits": Metric("latent, bits", 1),
    "area": Metric("mask area, %", 1, 100),
    "mask_bits": Metric("bits through the mask", 0),
    "closed_share": Metric("nearly closed masks, %", 1, 100),
}


def metric_texts(e: Evaluation) -> dict[str, str]:
    """All metrics by heading, errors with their 95% intervals; a dash for those it lacks."""
    texts = {name: number(getattr(e, name), m.digits, m.times) for name, m in METRICS.items()}
    for name, ends in (("top1_error", e.top1_interval), ("top5_error", e.top5_interval)):
        if ends is not None:
            texts[name] += " ({:.2f} to {:.2f})".format(*ends)
    return {METRICS[name].heading: text for name, text in texts.items()}


def evaluate(
    model: Classifier,
    data: ImageSet | Dataset | tuple[Any, Any] | str,
    *,
    samples: tuple[int, int] | None = None,
    deterministic: bool = False,
    batch_size: int | None = None,
    precision: Precision = "fp32",
    channels_last: bool = False,
    workers: int = 0,
    seed: int = 0,
    classes: Literal["own", "raw", "matched"] = "own",
    tick: Tick = silent,
    logits: list[tuple[Tensor, Tensor]] | None = None,
    reference: Tensor | None = None,
) -> Evaluation:
    """Evaluate the model on a whole data set, on the model's device.

    Pixels are resized and normalised as the model's preprocessing says, and classes are matched by
    name (`match_classes`). For other data than an ImageSet see `fit`.

    The noise is seeded, so the same call gives the same result on the same machine. `batch_size`
    fits the memory if it is not given. `tick` is called with the number of images of each batch,
    and `logits` collects (logits [B,C], labels [B]) of each. `reference` holds a teacher's
    probabilities [N,C] of the same images, for the agreement with it.
    """
    check_model(model, "evaluate")
    device = next(model.parameters()).device
    policy = model.preprocessing
    if batch_size is None:
        heads = 1 if deterministic else (samples or model.eval_samples)[0]
        batch_size = default_batch(device, policy.image_size, heads)
    images = as_images(data, policy, model.num_classes)
    if classes == "own":
        classes, images = prepare_images(model, images)
    batches = Batches(images, batch_size, train=False, device=device, workers=workers)
    average = get_profile(model.profile).averaging
    layout = torch.channels_last if channels_last else torch.contiguous_format
    metrics = EvaluationMetrics(model.num_classes, device)
    with seeded_evaluation(model, seed):
        began, done = time.monotonic(), 0
        for x, y in batches.epoch(0):
            with autocast(device, precision):
                x = x.contiguous(memory_format=layout)
                out = model(x, samples, deterministic=deterministic)
            averaged = out.average(average)
            extra = information(model, x, out)
            if reference is not None:
                theirs = reference[done : done + len(y)].argmax(-1).to(device)
                extra["agreement"] = 100.0 * (averaged.argmax(-1) == theirs)
            done += len(y)
            metrics.add(averaged, y, extra)
            if logits is not None:
                logits.append((averaged, y))
            tick("evaluating", len(y))
        values = metrics.compute()
        seconds = time.monotonic() - began
    return Evaluation(
        data=images.name,
        split=images.split,
        classes=classes,
        samples=model.describe_samples(samples, deterministic),
        averaged=average,
        images_per_second=values["images"] / seconds,
        **values,
    )


def information(model: Classifier, x: Tensor, out: Output) -> dict[str, Tensor]:
    """Bits in the latent, and area and bits of the mask, where there are such: [B] each."""
    found = {}
    if out.latent is not None:
        kl = kl_to_standard_normal(out.latent.mu, out.latent.sigma).mean(0)
        found["kl_bits"] = nats_to_bits(kl)
    if isinstance(model, Masked) and model.takes_map and out.mask is not None:
        area = widen(out.mask).mean((0, 2, 3))
        found |= {"area": area, "mask_bits": model.mask_bits(x, out.mask)}
        found["closed_share"] = area < CLOSED
    return found


def describe_samples(samples: str) -> str:
    """The samples of an evaluation, for a sentence."""
    return "no noise" if samples == "deterministic" else f"{samples} samples"


def describe_split(split: str) -> str:
    """The split that images belong to, for a sentence."""
    return {"train": "training", "val": "held-out"}.get(split, split)


class EvaluationMetrics:
    """The metrics of `Evaluation`, summed on the device; the host waits once, in `compute`."""

    def __init__(self, num_classes: int, device: torch.device):
        self.top5 = num_classes > 5
        # Count, NaN, top1, top5, nll.
        self.sums = torch.zeros(5, dtype=torch.float64, device=device)
        self.extra: dict[str, Tensor] = {}  # sums of what a model may lack
        # Correct predictions minus their summed confidence, in each bin of confidence.
        self.gaps = torch.zeros(BINS, dtype=torch.float64, device=device)

    def add(self, logits: Tensor, y: Tensor, extra: Mapping[str, Tensor] = {}) -> None:
        """Add a batch of logits [B,C], normalised or not, labels [B], and other values [B]."""
        for name, values in extra.items():
            self.extra[name] = self.extra.get(name, 0) + values.double().sum()
        log_probability = logits.log_softmax(-1)
        # Stable: of equal ones the first is the prediction, as in an explanation.
        order = log_probability.sort(dim=-1, descending=True, stable=True).indices  # [B,C]
        hit = order[:, : 5 if self.top5 else 1] == y[:, None]
        right = hit[:, 0]
        nll = -log_probability.gather(1, y[:, None]).sum()
        count = torch.full_like(nll, len(y))
        broken = log_probability.isnan().any(1).sum()
        self.sums += torch.stack([count, broken, (~right).sum(), (~hit.any(1)).sum(), nll])
        confidence = log_probability.exp().amax(-1).double()
        bin_index = (confidence * BINS).ceil().long().sub(1).clamp(0, BINS - 1)  # (low, high]
        self.gaps += (right.double() - confidence) @ F.one_hot(bin_index, BINS).double()

    def compute(self) -> dict[str, Any]:
        """The fields of `Evaluation` that are measured."""
        count, broken, wrong, wrong5, nll = self.sums.tolist()
        n = int(count)
        check_decided(int(broken), n)
        return {
            "images": n,
            "top1_error": 100 * wrong / n,
            "top1_interval": wilson_interval(int(wrong), n),
            "top5_error": 100 * wrong5 / n if self.top5 else None,
            "top5_interval": wilson_interval(int(wrong5), n) if self.top5 else None,
            "nll": nll / n,
            "calibration_error": 100 * float(self.gaps.abs().sum()) / n,
        } | {
            name: float(self.extra[name]) / n if name in self.extra else None
            for name in ("kl_bits", "area", "mask_bits", "closed_share", "agreement")
        }
