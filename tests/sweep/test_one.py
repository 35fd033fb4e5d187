"""One run of a sweep: trained, measured, skipped, resumed."""

import json

import pytest
import torch

from aib.runs import open_runs, train_seconds
from aib.sweep.one import Measurement, is_done, read_measurement, run_one
from tests.helpers import SMALL_RUN, copied, sweep_plan


def measured(sweep, name="base,seed=3") -> Measurement:
    return read_measurement(sweep / name)


def test_a_run_is_trained_as_planned_and_measured(sweep):
    assert is_done(sweep / "base,seed=3")
    evaluation = json.loads((sweep / "base,seed=3" / "evaluation.json").read_text())
    (found,) = evaluation.values()
    metrics = measured(sweep).metrics
    assert metrics.accuracy == 100 - found["top1_error"] and metrics.bits == found["kl_bits"]


def test_localisation_and_perplexity_are_those_of_the_maps(sweep):
    """Against a loop over the images: pairs of pixels, and a histogram."""
    [run] = open_runs((sweep / "base,seed=3",), "cpu")
    images = run.labelled_images()
    x = run.model.preprocessing.normalise(images.images)
    with torch.no_grad():
        attention = run.model.eval()(x, deterministic=True).attention
    maps = run.model.mean_map(attention)[0].double()
    wide = torch.nn.functional.interpolate(maps[:, None], size=(32, 32), mode="bilinear").float()
    scores = []
    for a, mask in zip(wide[:, 0], images.masks == 1, strict=True):
        inside, outside = a[mask][:, None], a[~mask][None]
        wins = (inside > outside).double() + 0.5 * (inside == outside).double()
        scores.append(wins.mean())
    shares = torch.bincount(attention.indices.flatten()).double()
    shares = shares[shares > 0] / shares.sum()
    metrics = measured(sweep).metrics
    assert metrics.auroc == pytest.approx(float(torch.stack(scores).mean()), abs=1e-6)
    perplexity = float(torch.exp(-(shares * shares.log()).sum()))
    assert metrics.perplexity == pytest.approx(perplexity, rel=1e-6)


def test_a_finished_run_is_skipped(sweep):
    before = {p: p.stat().st_mtime_ns for p in (sweep / "base,seed=3").iterdir()}
    run_one(sweep, "base,seed=3")
    assert before == {p: p.stat().st_mtime_ns for p in (sweep / "base,seed=3").iterdir()}


WRITTEN = ["model.safetensors", "evaluation.json", "sweep_figures.json"]  # in this order


@pytest.mark.parametrize("first_lost", range(3))
def test_a_killed_run_is_completed(sweep, tmp_path, first_lost):
    """Killed in training, in evaluation or while it was measured: the result is the same."""
    sweep_plan("beta=0.01", base=SMALL_RUN).write(tmp_path / "s")
    name = "base,seed=3"
    copy = copied(sweep / name, tmp_path / "s" / name, without=WRITTEN[first_lost:])
    assert not is_done(copy)
    run_one(tmp_path / "s", name)
    assert is_done(copy)
    assert measured(tmp_path / "s").metrics == measured(sweep).metrics


def test_training_time_is_summed_over_resumes(tmp_path):
    rows = [{"step": i, "seconds": s} for i, s in enumerate([1, 5, 9, 2, 4, 3.5])]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert train_seconds(tmp_path) == 9 + 4 + 3.5


def test_a_measurement_of_an_older_version_is_read_and_a_damaged_one_is_not(sweep, tmp_path):
    copy = copied(sweep / "base,seed=3", tmp_path / "run")
    text = (copy / "sweep_figures.json").read_text()
    (copy / "sweep_figures.json").write_text(text.replace('"metrics"', '"figures"'))
    assert is_done(copy) and read_measurement(copy) == measured(sweep)
    (copy / "sweep_figures.json").write_text(text[:12])
    assert not is_done(copy)  # made again
