"""The metrics of an evaluation as text: the same in terminal, report, model card and sweeps."""

from typing import NamedTuple

from aib.evaluation.error import Evaluation
from aib.figures.table import number


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
