"""What the training loop promises."""

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import torch
from torch import nn

import aib
from aib.data import ImageSet
from aib.runs import Run, read_metrics
from aib.settings import Settings
from aib.training.checkpoint import load_checkpoint
from aib.training.loop import Loop, fit, seed_step
from aib.training.objective import Objective
from aib.training.progress import Silent

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
SMALL = Settings(epochs=2, batch_size=8, lr=0.05, log_every=3, accelerator="cpu", workers=0)


def images(count: int = 40, seed: int = 0) -> ImageSet:
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(256, (count, 3, 32, 32), dtype=torch.uint8, generator=generator)
    return ImageSet.from_tensors(pixels, torch.arange(count) % 4)


def tiny(name: str = "tiny_aib_qt", seed: int = 0) -> aib.Classifier:
    torch.manual_seed(seed)
    return aib.create_model(name, 4, width=0.25)


def same(a: nn.Module, b: nn.Module) -> bool:
    return all(torch.equal(v, b.state_dict()[k]) for k, v in a.state_dict().items())


def assert_close(a: nn.Module, b: nn.Module, rtol: float = 1e-3, atol: float = 1e-4) -> None:
    for key, value in a.state_dict().items():
        torch.testing.assert_close(value, b.state_dict()[key], rtol=rtol, atol=atol)


def test_no_two_steps_parts_or_processes_share_their_noise() -> None:
    def noise(*where: int) -> torch.Tensor:
        seed_step(*where)
        return torch.randn(8)

    places = [(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1), (0, 11, 1, 0)]
    drawn = [noise(*where) for where in places]
    assert len({tuple(values.tolist()) for values in drawn}) == len(places)
    for where, values in zip(places, drawn, strict=True):
        assert torch.equal(noise(*where), values)


class Remember(Silent):
    def __init__(self) -> None:
        self.rows: list[dict] = []
        self.notes: list[str] = []

    def figures(self, row: dict) -> None:
        self.rows.append(row)

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_the_same_seed_gives_the_same_bits_and_another_does_not() -> None:
    first, again = fit(tiny(), images(), SMALL), fit(tiny(), images(), SMALL)
    other = fit(tiny(), images(), replace(SMALL, seed=1))
    assert same(first.model, again.model)
    assert not same(first.model, other.model)


def test_evaluating_in_between_does_not_change_the_training() -> None:
    plain = fit(tiny(), images(), SMALL)
    watched = fit(tiny(), images(), SMALL, validation=images(10, seed=3))
    assert same(plain.model, watched.model)


def test_looking_more_often_does_not_change_the_training() -> None:
    assert same(
        fit(tiny(), images(), SMALL).model, fit(tiny(), images(), replace(SMALL, log_every=1)).model
    )


def test_the_loss_falls() -> None:
    """All images in every batch and a rate that ends at zero: rounding cannot turn the outcome."""
    labels = torch.arange(40) % 4
    colors = torch.tensor([[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 0]])
    plain = colors.to(torch.uint8)[labels, :, None, None].expand(40, 3, 32, 32)
    rows = Remember()
    easy = ImageSet.from_tensors(plain.contiguous(), labels)
    s = replace(SMALL, epochs=60, batch_size=40, schedule="cosine", clip=2.0, beta=1e-4)
    fit(tiny(), easy, s, report=rows)
    assert rows.rows[-1]["nll"] < 0.5 * rows.rows[0]["nll"]


def test_the_rows_are_means_of_the_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the terms as the objective gave them, step by step."""
    seen: list[torch.Tensor] = []
    original = Objective.forward

    def spy(self: Objective, *args: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total, figures = original(self, *args)
        seen.append(figures.clone())
        return total, figures

    monkeypatch.setattr(Objective, "forward", spy)
    rows = Remember()
    fit(tiny(), images(), replace(SMALL, epochs=1), report=rows)
    assert [row["step"] for row in rows.rows] == [3, 5]
    for row, part in zip(rows.rows, (seen[:3], seen[3:]), strict=True):
        mean = torch.stack(part).mean(0)
        assert row["total"] == pytest.approx(mean[0].item(), rel=1e-5)
        assert row["kl"] == pytest.approx(mean[2].item(), rel=1e-5)
        assert row["error"] == pytest.approx(100 * mean[-1].item() / 8, rel=1e-5)


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


def without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    zero = lambda shape, like: torch.zeros(shape, dtype=like.dtype)  # noqa: E731
    monkeypatch.setattr("aib.attention.standard_noise", zero)
    monkeypatch.setattr("aib.latent.standard_noise", zero)


def test_accumulated_parts_make_the_same_step(monkeypatch: pytest.MonkeyPatch) -> None:
    without_noise(monkeypatch)
    whole = fit(attached(), images(), SMALL)
    parts = fit(attached(), images(), replace(SMALL, accumulate=4))
    assert_close(whole.model, parts.model, rtol=1e-3, atol=1e-5)
    assert parts.last["total"] == pytest.approx(whole.last["total"], rel=1e-4)
    assert parts.last["error"] == pytest.approx(whole.last["error"])


def test_an_attached_model_trains_with_the_same_loop() -> None:
    model = attached()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    fitted = aib.fit(model, images(), SMALL)
    assert fitted.model is model
    moved = [k for k, v in model.named_parameters() if not torch.equal(v, before[k])]
    assert "tail.features.0.weight" in moved
    assert "quantizer.anchors" in moved


@pytest.mark.parametrize("ema", [None, 0.5])
def test_a_model_is_saved_with_the_preprocessing_it_was_trained_with(
    tmp_path: Path, ema: float | None
) -> None:
    pixels, names = images().images, ("ant", "bee", "cat", "dog")
    labels, mean, std = torch.arange(40) % 4, (0.1, 0.2, 0.3), (0.4, 0.5, 0.6)
    data = ImageSet.from_tensors(pixels, labels, class_names=names, mean=mean, std=std)
    model = aib.attach(NoNoiseNoBatchNorm(), "features", 4, latent_dim=8)  # made for 224 pixels
    settings = replace(SMALL, epochs=1, ema=ema)
    run = Run.create(tmp_path / "run", model, settings)
    fitted = aib.fit(model, data, settings, run=run)
    fitted.model.save_pretrained(tmp_path / "saved")
    loaded = aib.from_pretrained(tmp_path / "saved", backbone=NoNoiseNoBatchNorm())
    wanted = aib.Preprocessing(32, "squash", mean, std, names)
    assert loaded.preprocessing == model.preprocessing == wanted
    config = json.loads((run.folder / "config.json").read_text())
    assert config["preprocessing"] == wanted.to_dict()
    assert config["settings"] == settings.to_dict()


def test_fit_says_what_it_takes() -> None:
    loader = torch.utils.data.DataLoader(images(), batch_size=8)
    for arguments in ({"data": loader}, {"data": images(), "validation": loader}):
        with pytest.raises(aib.AibError, match="takes an aib.data.ImageSet, not a DataLoader"):
            aib.fit(tiny(), settings=SMALL, **arguments)  # type: ignore[arg-type]
    with pytest.raises(aib.AibError, match="a model of aib, not a NoNoiseNoBatchNorm"):
        aib.fit(NoNoiseNoBatchNorm(), images(), SMALL)  # type: ignore[arg-type]
    with pytest.raises(aib.AibError, match="the data has 4 classes and the model 10"):
        aib.fit(aib.create_model("tiny", 10, width=0.25), images(), SMALL)


def test_clipping_bounds_the_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    """With plain SGD a step is rate times gradient, so its length is bounded too."""
    model = tiny()
    before = torch.cat([p.detach().flatten().clone() for p in model.parameters()])
    s = replace(SMALL, clip=1e-3, momentum=0.0, weight_decay=0.0, epochs=1, lr=1.0, log_every=100)
    steps = fit(model, images(), s).steps
    after = torch.cat([p.detach().flatten() for p in model.parameters()])
    assert 0 < float((after - before).norm()) <= steps * 1e-3 * 1.001


def test_the_average_is_what_comes_out() -> None:
    model = tiny()
    fitted = fit(model, images(), replace(SMALL, ema=0.5))
    assert fitted.model is not model
    assert not same(fitted.model, model)


@pytest.mark.parametrize("where", ["weights", "anchors"])
def test_a_non_finite_term_stops_with_its_step_and_keeps_the_good_checkpoint(
    tmp_path: Path, where: str
) -> None:
    model = tiny()
    s = replace(SMALL, epochs=4, checkpoint_every=0, log_every=2)
    run = Run.create(tmp_path / "run", model, s)

    def break_it(_module: nn.Module, _inputs: object) -> None:
        calls.append(1)
        if len(calls) == 8:
            target = model.head.encode.weight if where == "weights" else model.quantizer.anchors
            target.data[0] = math.nan

    calls: list[int] = []
    model.register_forward_pre_hook(break_it)
    with pytest.raises(aib.AibError, match="not finite at step 8") as caught:
        fit(model, images(), s, run=run)
    named = str(caught.value).split(";")[0]
    # An anchor that nothing chose breaks no term: then the check of the weights finds it.
    wanted = ("kl",) if where == "weights" else ("quantization", "quantizer.anchors")
    assert any(name in named for name in wanted)
    state = load_checkpoint(run.checkpoint)
    assert state["step"] == 6
    assert all(v.isfinite().all() for v in state["model"].values() if v.is_floating_point())


def test_metrics_are_one_json_object_a_line(tmp_path: Path) -> None:
    model = tiny()
    run = Run.create(tmp_path / "run", model, SMALL)
    fit(model, images(), SMALL, run=run, validation=images(8, seed=2))
    rows = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    assert [r["step"] for r in rows if "total" in r] == [3, 5, 6, 9, 10]
    ends = [r for r in rows if "validation" in r]
    assert [r["epoch"] for r in ends] == [0, 1]
    assert len(ends[0]["anchors"]) == len(ends[0]["usage"]) == 20
    assert sum(ends[0]["usage"]) == 40 * 8 * 8  # 40 images of 8 x 8 places
    assert rows == read_metrics(run.folder)


def test_revived_anchors_are_counted(tmp_path: Path) -> None:
    model = tiny()
    s = replace(SMALL, revive_anchors=True)
    run = Run.create(tmp_path / "run", model, s)
    fit(model, images(), s, run=run)
    assert all("revived" in r for r in read_metrics(run.folder) if "usage" in r)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_what_the_optimizer_remembers_of_a_moved_anchor_is_zeroed_in_its_place(
    optimizer: Literal["sgd", "adamw"],
) -> None:
    loop = Loop(tiny(), images(), replace(SMALL, optimizer=optimizer), None, None, Silent(), None)
    loop.take_step(loop.batches.epoch(0))
    [quantizer] = loop.quantizers
    memory = loop.optimizer.optimizer.state[quantizer.anchors]
    kept = {name: value.data_ptr() for name, value in memory.items()}
    quantizer.usage.fill_(1)
    quantizer.usage[0] = 0
    assert loop.revive(quantizer) == 1
    assert kept == {name: value.data_ptr() for name, value in memory.items()}
    assert all(not value.any() for value in memory.values())


def test_too_few_images_for_one_batch_is_said() -> None:
    with pytest.raises(aib.AibError, match="4 training images are fewer than one batch"):
        fit(tiny(), images(4), SMALL)


@pytest.mark.parametrize(("count", "left_out"), [(40, 0), (43, 3), (46, 6)])
def test_images_left_out_of_each_epoch_are_counted(count: int, left_out: int) -> None:
    """Parts of 4 would leave out 2 of 46, but a step takes two of them."""
    seen = Remember()
    fit(tiny(), images(count), replace(SMALL, epochs=1, accumulate=2), report=seen)
    told = [note for note in seen.notes if "left out" in note]
    assert bool(told) == bool(left_out)
    assert all(note.startswith(f"{left_out} of {count} training images") for note in told)


def test_bf16_training_is_close_to_fp32_and_keeps_float32_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without_noise(monkeypatch)
    one = replace(SMALL, epochs=1)
    exact = fit(attached(), images(), one)
    rough = fit(attached(), images(), replace(one, precision="bf16"))
    assert not same(exact.model, rough.model)
    assert rough.last["total"] == pytest.approx(exact.last["total"], rel=0.02)
    assert {p.dtype for p in rough.model.parameters()} == {torch.float32}


def test_fp16_without_a_gpu_is_refused_in_words() -> None:
    with pytest.raises(aib.AibError, match="fp16 needs a GPU"):
        fit(tiny(), images(), replace(SMALL, precision="fp16"))


def test_tensorboard_gets_the_figures(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    model = tiny()
    s = replace(SMALL, loggers=("tensorboard",))
    run = Run.create(tmp_path / "run", model, s)
    fit(model, images(), s, run=run)
    assert list((run.folder / "tensorboard").glob("events.*"))


def test_a_logger_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightning.pytorch.loggers", None)
    with pytest.raises(aib.AibError, match=r"pip install '\.\[wandb\]'"):
        fit(tiny(), images(), replace(SMALL, loggers=("wandb",)))


@needs_cuda
def test_no_step_waits_for_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    original, steps = Loop.take_step, []

    def strict(self: Loop, feed: object) -> None:
        # The first steps set memory up, and may wait.
        torch.cuda.set_sync_debug_mode("error" if len(steps) > 2 else "default")
        original(self, feed)
        torch.cuda.set_sync_debug_mode("default")
        steps.append(1)

    monkeypatch.setattr(Loop, "take_step", strict)
    s = replace(SMALL, accelerator="cuda", precision="bf16", clip=1.0, ema=0.9, accumulate=2)
    fit(tiny(), images(), s)
    assert len(steps) == 10


@needs_cuda
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_a_replayed_run_is_the_same_as_a_launched_one(
    compiled: bool, optimizer: Literal["sgd", "adamw"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise, rates, anchors that are revived, the average: all go on changing in a recording."""
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    torch.compiler.reset()
    s = replace(
        SMALL, accelerator="cuda", clip=1.0, ema=0.9, revive_anchors=True,
        beta_warmup=1.0, compile=compiled, optimizer=optimizer, lr=0.01, graphs=True,
    )  # fmt: skip
    replayed = fit(tiny(), images(), s)
    monkeypatch.setattr("aib.training.loop.Replay", lambda step: step)
    launched = fit(tiny(), images(), s)
    assert_close(launched.model, replayed.model)
    assert replayed.last["total"] == pytest.approx(launched.last["total"], rel=1e-3)


@needs_cuda
def test_a_replayed_sgd_run_is_that_of_the_plain_loop() -> None:
    s = replace(SMALL, accelerator="cuda", clip=1.0, ema=0.9)
    plain, replayed = fit(tiny(), images(), s), fit(tiny(), images(), replace(s, graphs=True))
    assert replayed.last["lr"] == plain.last["lr"]
    assert_close(plain.model, replayed.model)


@needs_cuda
def test_a_replayed_run_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    class Break(Silent):
        def figures(self, row: dict) -> None:
            if row["step"] == 9:
                raise KeyboardInterrupt

    s = replace(SMALL, accelerator="cuda", graphs=True, ema=0.9, checkpoint_every=0.0)
    whole = fit(tiny(), images(), s)
    run = Run.create(tmp_path / "run", tiny(), s)
    with pytest.raises(KeyboardInterrupt):
        fit(tiny(), images(), s, run=run, report=Break())
    assert load_checkpoint(run.checkpoint)["step"] == 6
    resumed = fit(tiny(), images(), s, run=run, resume=True)
    assert_close(whole.model, resumed.model, rtol=1e-4, atol=1e-5)


def test_graphs_change_nothing_on_a_cpu() -> None:
    plain, asked = fit(tiny(), images(), SMALL), fit(tiny(), images(), replace(SMALL, graphs=True))
    assert same(plain.model, asked.model)


@pytest.mark.slow
def test_a_compiled_run_is_close_to_an_eager_one(monkeypatch: pytest.MonkeyPatch) -> None:
    without_noise(monkeypatch)
    eager = fit(attached(), images(), SMALL)
    compiled = fit(attached(), images(), replace(SMALL, compile=True))
    assert_close(eager.model, compiled.model)
