"""The training loop, from one CPU to many GPUs, through Lightning Fabric."""

import hashlib
import math
import time
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from lightning.fabric import Fabric
from torch import Tensor, nn

from aib.classifier import Classifier
from aib.data import Batches, ImageSet
from aib.errors import AibError
from aib.quantize import AnchorQuantizer
from aib.runs import Run
from aib.settings import Settings
from aib.training.cuda_graph import Replay
from aib.training.ema import WeightAverage
from aib.training.fabric import in_first, launch, make_fabric
from aib.training.interrupt import Interrupted, StopRequest
from aib.training.metrics import TERMS, NonFiniteError, Watch
from aib.training.objective import Objective
from aib.training.optim import beta_at, learning_rate, load_state, make_optimizer
from aib.training.progress import Reporter, Silent


@dataclass(frozen=True)
class Fitted:
    """How a training ended. `model` holds the averaged weights if there was an average."""

    model: Classifier
    steps: int
    seconds: float
    last: dict[str, Any]  # the last row of figures


def seed_step(seed: int, step: int, part: int, rank: int) -> None:
    """Seed the noise of one forward pass by where it stands.

    The noise is then a function of (seed, step, part, rank) alone: a resumed run needs no saved
    random state, and an evaluation in between changes nothing.
    """
    digest = hashlib.blake2b(f"{seed} {step} {part} {rank}".encode(), digest_size=7).digest()
    torch.manual_seed(int.from_bytes(digest, "big"))


def fit(
    model: Classifier,
    data: ImageSet,
    settings: Settings | None = None,
    *,
    validation: ImageSet | None = None,
    run: Run | None = None,
    resume: bool = False,
    report: Reporter | None = None,
    fabric: Fabric | None = None,
) -> Fitted:
    """Train `model` on `data` and return it with its last figures.

    The model takes over the data's preprocessing and class names, as they belong to its weights
    from now on. Without a `run` nothing is written. With one, checkpoints and metrics go to its
    folder, and `resume` goes on from the checkpoint there.
    """
    _check_arguments(model, data, validation)
    model.preprocessing = data.preprocessing
    loop = Loop(model, data, settings or Settings(), validation, run, report or Silent(), fabric)
    if run is not None and loop.fabric.is_global_zero:
        run.update_preprocessing(model)
    if resume:
        loop.restore()
    in_first(loop.fabric, loop.check_space)
    with StopRequest() as stop:
        return loop.train(stop)


def _check_arguments(model: Classifier, data: ImageSet, validation: ImageSet | None) -> None:
    """Refuse what `fit` cannot train, or cannot train on."""
    if not isinstance(model, Classifier):
        raise AibError(
            f"fit trains a model of aib, not a {type(model).__name__}: make one with aib.attach or "
            "aib.create_model"
        )
    for images in (data, validation):
        if images is not None and not isinstance(images, ImageSet):
            raise AibError(
                f"fit takes an aib.data.ImageSet, not a {type(images).__name__}: make one with "
                "ImageSet.from_tensors(images, labels) or aib.data.load('folder:PATH', 'train')"
            )
    if data.num_classes != model.num_classes:
        raise AibError(
            f"the data has {data.num_classes} classes and the model {model.num_classes}: make the "
            f"model with num_classes={data.num_classes}, or name all of the data's class_names"
        )


class Loop:
    """The state of a training and its steps. `train` is the loop."""

    def __init__(
        self,
        model: Classifier,
        data: ImageSet,
        settings: Settings,
        validation: ImageSet | None,
        run: Run | None,
        report: Reporter,
        fabric: Fabric | None,
    ):
        s = self.settings = settings
        if fabric is None:
            fabric = make_fabric(s, run.folder if run else None)
            launch(fabric)
        self.fabric, self.validation, self.run = fabric, validation, run
        self.report = report if fabric.is_global_zero else Silent()
        world = fabric.world_size
        # On the hosts: to agree on a stop after each step, without waiting for the devices.
        self.hosts = dist.new_group(backend="gloo") if world > 1 else None
        self.batches = Batches(
            data,
            s.batch_size // (world * s.accumulate),
            train=True,
            device=fabric.device,
            seed=s.seed,
            rank=fabric.global_rank,
            world_size=world,
            workers=s.workers,
            pad=None if s.augment else 0,
            flip=None if s.augment else False,
            cutout=s.cutout if s.augment else 0,
        )
        self.steps_per_epoch = len(self.batches) // s.accumulate
        if self.steps_per_epoch == 0:
            raise AibError(
                f"{len(data)} training images are fewer than one batch of {s.batch_size}"
            )
        self.total_steps = s.epochs * self.steps_per_epoch
        if left_out := len(data) - self.steps_per_epoch * s.batch_size:
            self.report.note(
                f"{left_out:,} of {len(data):,} training images are left out of each epoch, others "
                f"each time, as every batch has {s.batch_size}; a batch size that divides "
                f"{len(data):,} leaves out none"
            )

        if world > 1 and fabric.device.type == "cuda":
            nn.SyncBatchNorm.convert_sync_batchnorm(model)  # in place, below the top module
        self.memory_format = torch.channels_last if s.channels_last else torch.contiguous_format
        self.model: Classifier = model.to(  # type: ignore[call-overload]
            fabric.device, memory_format=self.memory_format
        )
        self.average = WeightAverage(self.model, s.ema) if s.ema else None
        objective: nn.Module = Objective(self.model, s)
        if s.compile:
            objective = torch.compile(objective)  # type: ignore[assignment]
        graphs = s.graphs and world == 1 and fabric.device.type == "cuda"
        optimizer = make_optimizer(self.model, s, on_device=graphs)
        self.objective, self.optimizer = fabric.setup(objective, optimizer)
        # Tensors, as a float would be compiled into the step, or recorded with it.
        self.beta = torch.zeros((), device=fabric.device)
        self.rate = torch.zeros((), device=fabric.device) if graphs else None
        self.replay = Replay(self.whole_step) if graphs else None
        self.watch = Watch(fabric.device)
        # Each part adds its share of the means, and all of its count of wrong answers.
        share = [1 / s.accumulate] * len(TERMS) + [1.0]
        self.share = torch.tensor(share, device=fabric.device)
        self.step = 0
        self.looked_at = 0  # the step of the last look at the watch
        self.quantizers = [m for m in self.model.modules() if isinstance(m, AnchorQuantizer)]

    def train(self, stop: StopRequest) -> Fitted:
        """Epochs of steps; looks at the device, checkpoints and validation in between."""
        s, began = self.settings, time.monotonic()
        self.report.begin(self.total_steps, self.step, s.epochs)
        self.objective.train()
        self.last_look = self.last_save = began
        row: dict[str, Any] = {}
        try:
            while self.step < self.total_steps:
                epoch, first = divmod(self.step, self.steps_per_epoch)
                if first == 0:
                    self.begin_epoch()
                feed = self.batches.epoch(epoch, start=first * s.accumulate)
                for _ in range(first, self.steps_per_epoch):
                    self.take_step(feed)
                    epoch_ends = self.step % self.steps_per_epoch == 0
                    if epoch_ends or self.step % s.log_every == 0:
                        row = self.look(epoch, began)
                        if epoch_ends:
                            self.end_epoch(epoch)  # before saving: a resume starts the next one
                        self.save_if_due()
                    if self.must_stop(stop):
                        self.save_and_stop(stop)
            self.save()
        finally:
            self.report.close()
            self.replay = None  # what it recorded holds the GPU's memory, and this loop
        final = self.average.model if self.average else self.model
        return Fitted(final.eval(), self.step, time.monotonic() - began, row)

    def begin_epoch(self) -> None:
        """Anchor usage is counted per epoch."""
        for quantizer in self.quantizers:
            quantizer.reset_usage()

    def take_step(self, feed: Any) -> None:
        """One update. Nothing here waits for the device."""
        s, step = self.settings, self.step
        self.set_rates(step)
        if self.replay:
            figures, norm = self.replay(*self.next_part(feed, 0))
        else:
            figures = torch.zeros_like(self.watch.sums)
            for part in range(s.accumulate):
                figures += self.descend(*self.next_part(feed, part), part)
            norm = self.update()
        self.step += 1
        self.watch.add(figures, norm, self.step)

    def set_rates(self, step: int) -> None:
        """Learning rate and beta of this step."""
        s, rate = self.settings, learning_rate(self.settings, step, self.steps_per_epoch)
        if self.rate is not None:
            self.rate.fill_(rate)
        for group in self.optimizer.param_groups:
            group["lr"] = rate if self.rate is None else self.rate
        self.beta.fill_(beta_at(s, step, self.steps_per_epoch))

    def next_part(self, feed: Any, part: int) -> tuple[Tensor, Tensor]:
        """Images and labels; the noise of their forward pass is seeded too."""
        x, y = next(feed)
        seed_step(self.settings.seed, self.step, part, self.fabric.global_rank)
        return x.contiguous(memory_format=self.memory_format), y

    def whole_step(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """An update from one part, as it is recorded."""
        return self.descend(x, y, part=0), self.update()

    def descend(self, x: Tensor, y: Tensor, part: int) -> Tensor:
        """Add this part's gradient; return its share of the figures to watch."""
        accumulate = self.settings.accumulate
        more = part < accumulate - 1
        with self.fabric.no_backward_sync(self.objective, enabled=more):
            loss, seen = self.objective(x, y, self.beta)
            self.fabric.backward(loss / accumulate)
        return seen * self.share

    def update(self) -> Tensor:
        """Move the weights along the gradient; return its norm."""
        s = self.settings
        norm = self.fabric.clip_gradients(
            self.objective,
            self.optimizer,
            max_norm=s.clip or math.inf,
            error_if_nonfinite=False,
        )
        assert norm is not None
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.average:
            self.average.update(self.model)
        # fp16 meets infinite gradients while its loss scale settles, and skips those steps itself.
        return torch.zeros_like(norm) if s.precision == "fp16" else norm

    def look(self, epoch: int, began: float) -> dict[str, Any]:
        """Read the figures since the last look, log them, stop if any was not finite."""
        s = self.settings
        self.watch.check()
        steps = self.step - self.looked_at
        images = steps * s.batch_size
        row: dict[str, Any] = {
            "step": self.step,
            "epoch": epoch,
            **self.watch.read(steps, images),
            "lr": learning_rate(s, self.step - 1, self.steps_per_epoch),
            "beta": beta_at(s, self.step - 1, self.steps_per_epoch),
        }
        if self.quantizers:
            row["perplexity"] = float(self.quantizers[0].perplexity())
        now = time.monotonic()  # after `read`, which waited for the device
        row["images_per_second"] = images / max(1e-9, now - self.last_look)
        row["seconds"] = now - began
        self.looked_at, self.last_look = self.step, now
        self.log(row)
        self.report.figures(row)
        return row

    def end_epoch(self, epoch: int) -> None:
        """Validate if it is time, note the anchors, revive unused ones."""
        from aib.evaluate import evaluate

        s = self.settings
        row: dict[str, Any] = {"step": self.step, "epoch": epoch}
        last = epoch == s.epochs - 1
        due = last or (epoch + 1) % s.evaluate_every == 0
        if self.validation is not None and due and self.fabric.is_global_zero:
            model = self.average.model if self.average else self.model
            figures = evaluate(
                model,
                self.validation,
                precision=s.precision,
                channels_last=s.channels_last,
                workers=s.workers,
            )
            row["validation"] = figures.to_dict()
            self.report.note(f"epoch {epoch + 1}: held-out error {figures.top1_error:.2f}%")
        for quantizer in self.quantizers[:1]:
            row["anchors"] = quantizer.anchors.tolist()
            row["usage"] = quantizer.usage.tolist()
        if s.revive_anchors:
            row["revived"] = sum(self.revive(quantizer) for quantizer in self.quantizers)
        if len(row) > 2:
            self.log(row)
        self.last_look = time.monotonic()  # the next rate should not count this

    def revive(self, quantizer: AnchorQuantizer) -> int:
        """Move unused anchors; what the optimizer remembers of their old places is forgotten."""
        moved = quantizer.revive_unused()
        if moved:
            for memory in self.optimizer.optimizer.state.get(quantizer.anchors, {}).values():
                if isinstance(memory, Tensor):
                    memory.zero_()  # in its place, which a recorded step remembers
        return moved

    def log(self, row: dict[str, Any]) -> None:
        """To metrics.jsonl and to the loggers that were asked for."""
        if not self.fabric.is_global_zero:
            return
        if self.run:
            self.run.log(row)
        numbers = {k: v for k, v in row.items() if isinstance(v, int | float)}
        self.fabric.log_dict(numbers, step=row["step"])

    def must_stop(self, stop: StopRequest) -> bool:
        """Has any process been asked to stop? All of them agree on it after every step."""
        number = stop.signal
        if self.hosts is not None:
            flag = torch.tensor(number or 0)
            dist.all_reduce(flag, dist.ReduceOp.MAX, group=self.hosts)
            number = int(flag) or None  # not `stop.signal`: one may come in now, for the next step
        if number is not None:
            stop.signal = number
        return number is not None

    def save_and_stop(self, stop: StopRequest) -> None:
        self.watch.check()
        self.save()
        self.fabric.barrier()  # a process that ends earlier would take the saving one with it
        assert stop.signal is not None
        where = f"; go on with `aib train --resume {self.run.folder}`" if self.run else ""
        raise Interrupted(
            f"stopped after step {self.step} of {self.total_steps}{where}", stop.signal
        )

    def save_if_due(self) -> None:
        if time.monotonic() - self.last_save >= 60 * self.settings.checkpoint_every:
            self.save()

    def save(self) -> None:
        """A checkpoint of this moment. Every process may call it; the first one writes."""
        if self.run is None or not self.fabric.is_global_zero:
            return
        self.check_weights()
        state = {
            "step": self.step,
            "looked_at": self.looked_at,
            "sums": self.watch.sums.cpu(),
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "average": self.average.model.state_dict() if self.average else None,
            "precision": self.fabric.strategy.precision.state_dict(),  # fp16's loss scale
        }
        self.run.save(state)
        self.last_save = time.monotonic()

    def check_space(self) -> None:
        """Refuse to begin what the disk of the run's folder cannot hold."""
        if self.run is None:
            return
        s = self.settings
        weights = sum(value.nbytes for value in self.model.state_dict().values())
        learned = sum(parameter.nbytes for parameter in self.model.parameters())
        moments = 2 if s.optimizer == "adamw" else int(s.momentum > 0)
        checkpoint = (2 if self.average else 1) * weights + moments * learned
        rows = self.total_steps // s.log_every + 2 * s.epochs
        self.run.check_space(checkpoint, weights, rows)

    def check_weights(self) -> None:
        """A weight can be lost without a trace in the loss; no checkpoint should hold one."""
        named = list(self.model.named_parameters())
        finite = torch.stack([p.detach().isfinite().all() for _, p in named]).tolist()
        lost = [name for (name, _), fine in zip(named, finite, strict=True) if not fine]
        if lost:
            raise NonFiniteError(self.step, lost)

    def restore(self) -> None:
        """Take everything back to the run's checkpoint."""
        assert self.run is not None
        state = self.run.load()
        try:
            self.model.load_state_dict(state["model"])
            load_state(self.optimizer.optimizer, state["optimizer"])
            if self.average:
                self.average.model.load_state_dict(state["average"])
            self.fabric.strategy.precision.load_state_dict(state["precision"])
            self.watch.sums.copy_(state["sums"])
            self.step, self.looked_at = int(state["step"]), int(state["looked_at"])
            if not 0 <= self.looked_at <= self.step <= self.total_steps:
                raise ValueError(f"it is of step {self.step} of {self.total_steps}")
        except Exception as error:  # torch meets foreign content with any exception there is
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise AibError(f"{self.run.checkpoint} does not fit this run: {reason}") from error
        self.cut_metrics()

    def cut_metrics(self) -> None:
        if self.run is not None and self.fabric.is_global_zero:
            self.run.cut_metrics(self.step)
