"""The training loop: determinism, logging, averages, errors and CUDA graphs."""

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import aib
from aib.data import ImageSet
from aib.runs.files import read_metrics
from aib.training.fit import fit, missed_area
from aib.training.folder import RunFolder, load_checkpoint
from aib.training.metrics import MEANS
from aib.training.progress import Reporter
from aib.training.step import Objective, TrainingStep, seed_step
from tests.helpers import SMALL, RecordingReporter, image_set, images, same_weights, small_model

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def tiny() -> aib.Classifier:
    return small_model(num_classes=4)


def assert_close(a: nn.Module, b: nn.Module, rtol: float = 1e-3, atol: float = 1e-4) -> None:
    for key, value in a.state_dict().items():
        torch.testing.assert_close(value, b.state_dict()[key], rtol=rtol, atol=atol)


def test_no_two_steps_parts_or_processes_share_their_noise() -> None:
    def noise(*where: int) -> torch.Tensor:
        seed_step(*where)
        return torch.randn(8)

    positions = [*torch.eye(4, dtype=torch.int64).tolist(), [0, 0, 0, 0], [0, 11, 1, 0]]
    sampled = [noise(*where) for where in positions]
    assert len({tuple(values.tolist()) for values in sampled}) == len(positions)
    for where, values in zip(positions, sampled, strict=True):
        assert torch.equal(noise(*where), values)


def test_the_seed_decides_and_not_evaluation_logging_or_graphs_on_the_cpu() -> None:
    plain = fit(tiny(), image_set(16), SMALL).model
    for changes in ({"log_every": 1, "graphs": True}, {"seed": 1}):
        validation = None if "seed" in changes else image_set(4)
        other = fit(tiny(), image_set(16), replace(SMALL, **changes), validation=validation).model
        assert same_weights(plain, other) == ("seed" not in changes)


def test_each_kind_of_augmentation_changes_the_training_and_none_without_it() -> None:
    def trained(**changes: Any) -> aib.Classifier:
        return fit(tiny(), image_set(16), replace(SMALL, **changes)).model

    plain, kinds = trained(), {"trivial_augment": True, "alternate_flip": True}
    for change in (*({name: True} for name in kinds), {"label_smoothing": 0.1}):
        assert not same_weights(trained(**change), plain), change
    assert same_weights(trained(augment=False), trained(augment=False, **kinds))


def test_the_loss_falls() -> None:
    """All images in every batch and a rate that ends at zero: rounding cannot turn the outcome."""
    labels = torch.arange(8) % 4
    colors = torch.tensor([[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 0]])
    plain = colors.to(torch.uint8)[labels, :, None, None].expand(8, 3, 32, 32)
    rows = RecordingReporter()
    easy = ImageSet.from_tensors(plain.contiguous(), labels)
    s = replace(SMALL, epochs=60, batch_size=8, schedule="cosine", clip=2.0, beta=1e-4)
    fit(tiny(), easy, s, report=rows)
    assert rows.rows[-1]["nll"] < 0.5 * rows.rows[0]["nll"]


def test_the_rows_are_means_of_the_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the terms as the objective gave them, step by step."""
    seen: list[torch.Tensor] = []
    original = Objective.forward

    def spy(self: Objective, *args: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total, metrics = original(self, *args)
        seen.append(metrics.clone())
        return total, metrics

    monkeypatch.setattr(Objective, "forward", spy)
    rows = RecordingReporter()
    fit(tiny(), image_set(), replace(SMALL, epochs=1), report=rows)
    assert [row["step"] for row in rows.rows] == [3, 5]
    for row, part in zip(rows.rows, (seen[:3], seen[3:]), strict=True):
        mean = torch.stack(part).mean(0)
        assert row["total"] == pytest.approx(mean[0].item(), rel=1e-5)
        assert row["kl"] == pytest.approx(mean[2].item(), rel=1e-5)
        assert row["error"] == pytest.approx(100 * mean[-1].item() / 8, rel=1e-5)


@pytest.mark.parametrize("budget", ["mean", "image"])
def test_a_budget_for_the_mean_is_one_for_the_batch_of_all_parts_and_processes(budget, monkeypatch):
    torch.manual_seed(0)
    model = aib.create_model("tiny_aib_masked", 4, 32, width=0.25)
    objective = Objective(model, replace(SMALL, budget=budget))
    x, y, beta, area = images(8), torch.arange(8) % 4, torch.tensor(0.01), torch.tensor(0.4)

    def excess(*before: float) -> tuple[float, float]:
        _, metrics = objective(x, y, beta, area, torch.tensor(before))
        return tuple(metrics[MEANS.index(name)].item() for name in ("area", "excess"))

    own, alone = excess(0.0, 0.0)  # the model starts open
    assert alone == pytest.approx(own - 0.4, abs=1e-5)
    _, after_two_parts = excess(0.3, 2.0)
    monkeypatch.setattr("aib.training.step.average_over_ranks", lambda mean: (mean + 0.2) / 2)
    _, beside_another = excess(0.0, 0.0)
    if budget == "mean":
        assert after_two_parts == pytest.approx(max((own + 0.3) / 3 - 0.4, 0), abs=1e-5)
        assert beside_another == pytest.approx((own + 0.2) / 2 - 0.4, abs=1e-5)
    else:
        assert after_two_parts == beside_another == alone


@pytest.mark.parametrize(
    ("area", "budget", "warned"),
    [(0.9, "mean", True), (0.29, "mean", False), (0.1, "mean", True), (0.9, "image", False)],
)
def test_a_mean_area_that_misses_its_budget_is_a_warning(area, budget, warned) -> None:
    model = aib.create_model("tiny_aib_masked", 4, 32, width=0.25, area=0.25)
    found = missed_area(model, replace(SMALL, budget=budget), area)
    assert (found is not None) == warned
    if warned:
        assert f"{area:.0%}" in found and "25%" in found
    assert missed_area(aib.create_model("tiny_evaluator", 4, 32), SMALL, area) is None


@pytest.mark.parametrize("change", [{"budget": "mean"}, {"lambda_area": 1.0}])
def test_a_budget_for_a_model_without_a_mask_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(aib.AibError, match=f"{next(iter(change))} changes nothing"):
        fit(tiny(), image_set(16), replace(SMALL, **change))


class NoNoiseNoBatchNorm(nn.Module):
    """A network whose step does not depend on how a batch is cut into parts."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU())
        self.rest = nn.Sequential(nn.Conv2d(8, 8, 3, 2, 1), nn.ReLU())
        self.fc = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.rest(self.features(x)).mean((2, 3)))


def attached() -> aib.Classifier:
    torch.manual_seed(0)
    return aib.attach(NoNoiseNoBatchNorm(), "features", 4, quantizer=6, latent_dim=8, image_size=32)


def zero_noise(noise: object, shape: tuple, like: torch.Tensor, name: str) -> torch.Tensor:
    return torch.zeros(shape, dtype=like.dtype)


@pytest.fixture
def no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aib.models.attention.noise_or_sample", zero_noise)
    monkeypatch.setattr("aib.models.latent.noise_or_sample", zero_noise)


@pytest.mark.usefixtures("no_noise")
def test_accumulated_parts_make_the_same_step() -> None:
    whole = fit(attached(), image_set(), SMALL)
    parts = fit(attached(), image_set(), replace(SMALL, accumulate=4))
    assert_close(whole.model, parts.model, rtol=1e-3, atol=1e-5)
    assert parts.last["total"] == pytest.approx(whole.last["total"], rel=1e-4)
    assert parts.last["error"] == pytest.approx(whole.last["error"])


@pytest.mark.parametrize("ema", [None, 0.5])
def test_a_model_is_saved_with_the_preprocessing_it_was_trained_with(tmp_path, ema):
    pixels, names = image_set().images, ("ant", "bee", "cat", "dog")
    labels, mean, std = torch.arange(40) % 4, (0.1, 0.2, 0.3), (0.4, 0.5, 0.6)
    data = ImageSet.from_tensors(pixels, labels, class_names=names, mean=mean, std=std)
    model = aib.attach(NoNoiseNoBatchNorm(), "features", 4, latent_dim=8)  # made for 224 pixels
    settings = replace(SMALL, epochs=1, ema=ema)
    run = RunFolder(tmp_path / "run")
    fitted = aib.fit(model, data, settings, run=run.folder)
    fitted.model.save_pretrained(tmp_path / "saved")
    loaded = aib.from_pretrained(tmp_path / "saved", backbone=NoNoiseNoBatchNorm())
    wanted = aib.Preprocessing(32, "squash", mean, std, names)
    assert loaded.preprocessing == model.preprocessing == wanted
    config = json.loads((run.folder / "config.json").read_text())
    assert config["preprocessing"] == wanted.to_dict()
    assert config["training"]["batch_size"] == settings.batch_size


def test_clipping_bounds_the_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    """With plain SGD a step is rate times gradient, so its length is bounded too."""
    model = tiny()
    before = torch.cat([p.detach().flatten().clone() for p in model.parameters()])
    s = replace(SMALL, clip=1e-3, momentum=0.0, weight_decay=0.0, epochs=1, lr=1.0, log_every=100)
    steps = fit(model, image_set(), s).steps
    after = torch.cat([p.detach().flatten() for p in model.parameters()])
    assert 0 < float((after - before).norm()) <= steps * 1e-3 * 1.001


@pytest.mark.parametrize("where", ["weights", "anchors"])
def test_a_non_finite_term_stops_with_its_step_and_keeps_the_good_checkpoint(tmp_path, where):
    model = tiny()
    s = replace(SMALL, epochs=4, checkpoint_every=0, log_every=2)
    run = RunFolder(tmp_path / "run")

    def set_nan(_module: nn.Module, _inputs: object) -> None:
        calls.append(1)
        if len(calls) == 8:
            target = model.head.encode.weight if where == "weights" else model.quantizer.anchors
            target.data[0] = math.nan

    calls: list[int] = []
    model.register_forward_pre_hook(set_nan)
    with pytest.raises(aib.AibError, match="not finite at step 8") as caught:
        fit(model, image_set(), s, run=run.folder)
    named = str(caught.value).split(";")[0]
    # An anchor that nothing chose breaks no term: then the check of the weights finds it.
    wanted = ("kl",) if where == "weights" else ("quantization", "quantizer.anchors")
    assert any(name in named for name in wanted)
    state = load_checkpoint(run.checkpoint)
    assert state["step"] == 6
    assert all(v.isfinite().all() for v in state["model"].values() if v.is_floating_point())


def test_metrics_are_logged_to_a_file_and_to_tensorboard(tmp_path: Path) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run, s = RunFolder(tmp_path / "run"), replace(SMALL, loggers=("tensorboard",))
    fitted = fit(tiny(), image_set(), s, run=run.folder, validation=image_set(12))
    rows = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    assert rows == read_metrics(run.folder)
    found = events.EventAccumulator(str(run.folder / "tensorboard")).Reload()
    steps = [event.step for event in found.Scalars("nll")]
    assert steps == [r["step"] for r in rows if "total" in r] == [3, 5, 6, 9, 10]
    ends = [r for r in rows if "validation" in r]
    assert [r["epoch"] for r in ends] == [0, 1]
    assert len(ends[0]["anchors"]) == 20 and sum(ends[0]["usage"]) == 40 * 8 * 8  # positions
    held_out = found.Scalars("validation/top1_error")
    assert [event.step for event in held_out] == [5, 10]
    assert fitted.validation is not None
    assert held_out[-1].value == pytest.approx(fitted.validation.top1_error)


def test_held_out_images_and_weights_are_those_of_the_average(tmp_path: Path) -> None:
    """A decay of 0.5: the average differs from the last weights, and every evaluation takes it."""
    model, s = tiny(), replace(SMALL, ema=0.5)
    run = RunFolder(tmp_path / "run")
    fitted = fit(
        model, image_set(), s, run=run.folder, validation=image_set(12), test=image_set(16)
    )
    assert fitted.validation is not None and fitted.test is not None
    for data, found in ((image_set(12), fitted.validation), (image_set(16), fitted.test)):
        assert found.nll == aib.evaluate(fitted.model, data).nll
        assert found.nll != aib.evaluate(model, data).nll
    assert same_weights(aib.from_pretrained(run.folder), fitted.model)


def test_bf16_training_is_close_to_fp32_and_keeps_float32_weights() -> None:
    one = replace(SMALL, epochs=1)
    exact = fit(attached(), image_set(), one)
    rough = fit(attached(), image_set(), replace(one, precision="bf16"))
    assert not same_weights(exact.model, rough.model)
    assert rough.last["total"] == pytest.approx(exact.last["total"], rel=0.02)
    assert {p.dtype for p in rough.model.parameters()} == {torch.float32}


def test_mistakes_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(aib.AibError, match="a model of aib, not a NoNoiseNoBatchNorm"):
        fit(NoNoiseNoBatchNorm(), image_set(), SMALL)  # type: ignore[arg-type]
    with pytest.raises(aib.AibError, match="fp16 needs a GPU"):
        fit(tiny(), image_set(), replace(SMALL, precision="fp16", accelerator="cpu"))
    monkeypatch.setitem(sys.modules, "lightning.pytorch.loggers", None)
    with pytest.raises(aib.AibError, match=r"pip install 'aib\[wandb\]'"):
        fit(tiny(), image_set(), replace(SMALL, loggers=("wandb",)))


@needs_cuda
def test_no_step_waits_for_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    original, steps = TrainingStep.__call__, []

    def strict(self: TrainingStep, *arguments: object) -> tuple[torch.Tensor, ...]:
        # The first steps allocate memory, and may wait.
        torch.cuda.set_sync_debug_mode("error" if len(steps) > 2 else "default")
        result = original(self, *arguments)
        torch.cuda.set_sync_debug_mode("default")
        steps.append(1)
        return result

    monkeypatch.setattr(TrainingStep, "__call__", strict)
    s = replace(SMALL, accelerator="cuda", precision="bf16", clip=1.0, ema=0.9, accumulate=2)
    s = replace(s, trivial_augment=True, label_smoothing=0.1)
    fit(tiny(), image_set(), s)
    assert len(steps) == 10


@needs_cuda
@pytest.mark.parametrize(
    ("compiled", "optimizer", "more"),
    [
        (False, "sgd", {"trivial_augment": True, "label_smoothing": 0.1}),
        (False, "adamw", {}),
        (True, "sgd", {}),
        (True, "adamw", {}),
    ],
)
def test_a_captured_run_is_the_same_as_a_launched_one(compiled, optimizer, more, monkeypatch):
    """Noise, rates and the average all keep changing in a captured step."""
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    torch.compiler.reset()
    s = replace(
        SMALL, accelerator="cuda", clip=1.0, ema=0.9,
        beta_warmup=1.0, compile=compiled, optimizer=optimizer, lr=0.01, graphs=True,
        **more,
    )  # fmt: skip
    captured = fit(tiny(), image_set(), s)
    monkeypatch.setattr("aib.training.step.CapturedStep", lambda step: step)
    launched = fit(tiny(), image_set(), s)
    assert_close(launched.model, captured.model)
    assert captured.last["total"] == pytest.approx(launched.last["total"], rel=1e-3)


@needs_cuda
def test_a_captured_run_can_be_resumed(tmp_path: Path) -> None:
    class Break(Reporter):
        def metrics(self, row: dict) -> None:
            if row["step"] == 9:
                raise KeyboardInterrupt

    s = replace(SMALL, accelerator="cuda", graphs=True, ema=0.9, checkpoint_every=0.0)
    whole = fit(tiny(), image_set(), s)
    run = RunFolder(tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        fit(tiny(), image_set(), s, run=run.folder, report=Break())
    assert load_checkpoint(run.checkpoint)["step"] == 6
    resumed = fit(tiny(), image_set(), s, run=run.folder, resume=True)
    assert_close(whole.model, resumed.model, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
def test_a_compiled_run_is_close_to_an_eager_one() -> None:
    eager = fit(attached(), image_set(), SMALL)
    compiled = fit(attached(), image_set(), replace(SMALL, compile=True))
    assert_close(eager.model, compiled.model)
