"""The training loop, from one CPU to many GPUs, through Lightning Fabric."""

import time
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from lightning.fabric import Fabric
from torch import Tensor

from aib.config.settings import Settings
from aib.data import Batches, ImageSet
from aib.data.decoded import fits
from aib.errors import AibError, first_line
from aib.evaluation.calibration import fit_calibration
from aib.evaluation.error import Evaluation, evaluate
from aib.models.classifier import Classifier
from aib.models.types import Calibration
from aib.models.weights import how_to_resume
from aib.system.environment import emulates_bf16
from aib.training.fabric import start_fabric
from aib.training.folder import RunFolder, save_checkpoint
from aib.training.interrupt import Interrupted, SignalCatcher
from aib.training.metrics import MetricSums
from aib.training.optim import beta_at, learning_rate
from aib.training.progress import Reporter
from aib.training.step import TrainingStep
from aib.training.teacher import Teacher

FEW_STEPS = 200  # fewer leave BatchNorm's running statistics near their initial values


@dataclass(frozen=True)
class Fitted:
    """The result of `fit`. `model` holds the averaged weights if there is an average."""

    model: Classifier
    steps: int
    seconds: float  # of training, those before an interruption included
    last: dict[str, Any]  # the last row of metrics
    validation: Evaluation | None = None  # of the held-out images, at the end
    test: Evaluation | None = None


def training_batches(data: ImageSet, s: Settings, fabric: Fabric) -> Batches:
    """This process's share of the images, augmented as the settings say."""
    return Batches(
        data,
        s.batch_size // (fabric.world_size * s.accumulate),
        train=s.epochs > 0,  # without epochs nothing is decoded
        device=fabric.device,
        seed=s.seed,
        rank=fabric.global_rank,
        world_size=fabric.world_size,
        workers=s.workers,
        pad=None if s.augment else 0,
        flip=None if s.augment else False,
        cutout=s.cutout if s.augment else 0,
        trivial_augment=s.trivial_augment and s.augment,
        alternate_flip=s.alternate_flip,
        cache=s.cache,
    )


class Loop:
    """Epochs of steps, with logging, validation and checkpoints in between."""

    def __init__(
        self,
        model: Classifier,
        data: ImageSet,
        settings: Settings,
        validation: ImageSet | None = None,
        run: RunFolder | None = None,
        report: Reporter | None = None,
        fabric: Fabric | None = None,
        teacher: Teacher | None = None,
        seconds: float = 0.0,
    ):
        s = self.settings = settings
        fabric = fabric or start_fabric(s)
        self.reference: Tensor | None = None  # the teacher's probabilities of the held-out images
        if teacher is not None:
            teacher.to(fabric.device).watch(model.preprocessing)
            if validation is not None and fabric.is_global_zero:
                validation, self.reference = teacher.label(validation, s.workers)
        if validation is not None:  # it is evaluated many times: images and masks stay in memory
            needed = 4 * len(validation) * validation.preprocessing.image_size**2
            validation = validation.in_memory() if fits(s.cache, needed) else validation
        self.fabric, self.validation, self.run = fabric, validation, run
        self.report = report if report and fabric.is_global_zero else Reporter()
        if s.precision == "bf16" and fabric.device.type == "cpu" and emulates_bf16():
            self.report.message("bf16 takes far longer than fp32 on this CPU: use --precision fp32")
        # On the hosts: to agree on a stop after each step, without waiting for the devices.
        self.hosts = dist.new_group(backend="gloo") if fabric.world_size > 1 else None
        self.batches = training_batches(data, s, fabric)
        self.steps_per_epoch = len(self.batches) // s.accumulate
        if s.epochs and self.steps_per_epoch == 0:
            count = self.batches.num_images
            raise AibError(f"{count} training images are fewer than one batch of {s.batch_size}")
        self.total_steps = s.epochs * self.steps_per_epoch
        left_out = self.batches.num_images - self.steps_per_epoch * s.batch_size
        if s.epochs and left_out:
            self.report.message(
                f"{left_out:,} of {self.batches.num_images:,} training images are left out of each "
                f"epoch, as every batch has {s.batch_size}"
            )
        self.take_step = TrainingStep(model, s, fabric, self.steps_per_epoch, teacher)
        self.quantizer = self.take_step.model.quantizer
        self.sums = MetricSums(fabric.device)
        self.step = 0
        self.logged_step = 0  # metrics are summed since then
        self.seconds = seconds  # of training before: of the head, or until a restored checkpoint
        self.began = time.monotonic()  # `train` sets it anew, earlier by `seconds`
        self.test_images = 0  # to evaluate after the training
        self.last: dict[str, Any] = {}  # the last row of metrics
        self.last_validation: Evaluation | None = None
        self.calibration: Calibration | None = None  # fitted on the held-out images

    def train(self, stop: SignalCatcher) -> Fitted:
        """Run all remaining epochs."""
        s, now = self.settings, time.monotonic()
        self.began = now - self.seconds
        self.report.begin(self.total_steps, self.step, s.epochs)
        self.take_step.objective.train()
        self.take_step.frozen.hold()
        self.log_time = self.save_time = now
        try:
            while self.step < self.total_steps:
                epoch, first = divmod(self.step, self.steps_per_epoch)
                if first == 0 and self.quantizer is not None:
                    self.quantizer.reset_usage()  # counted per epoch
                start = first * s.accumulate
                batches = self.batches.epoch(epoch, start)
                for _ in range(first, self.steps_per_epoch):
                    metrics, gradient_norm = self.take_step(batches, self.step)
                    self.step += 1
                    self.sums.add(metrics, gradient_norm, self.step)
                    epoch_ends = self.step % self.steps_per_epoch == 0
                    if epoch_ends or self.step % s.log_every == 0:
                        self.log_metrics(epoch)
                        if epoch_ends:
                            self.end_epoch(epoch)  # before saving: a resume starts the next one
                        if time.monotonic() - self.save_time >= 60 * s.checkpoint_every:
                            self.save()
                    self.stop_if_asked(stop)
            self.save()
        finally:
            self.report.close()
            self.take_step.captured = None  # it holds GPU memory, and this loop
            self.take_step.frozen.release()
        final, seconds = self.take_step.final_model.eval(), time.monotonic() - self.began
        if self.last_validation is None and self.validation and self.fabric.is_global_zero:
            self.last_validation = self.validate(final, last=True)  # no step was left
        final.calibration = self.calibration
        return Fitted(final, self.step, seconds, self.last, self.last_validation)

    def validate(self, model: Classifier, last: bool) -> Evaluation:
        """Evaluate the held-out images; the last time, also fit the calibration on them."""
        assert self.validation is not None
        logits: list[tuple[Tensor, Tensor]] = []
        compared = {"logits": logits, "reference": self.reference}
        evaluation = self.evaluate(model, self.validation, **compared)
        if last:
            values, labels = map(torch.cat, zip(*logits, strict=True))
            if self.reference is not None and not self.validation.labelled:
                labels = self.reference
            self.calibration = fit_calibration(values, labels)
        return evaluation

    def evaluate(self, model: Classifier, data: ImageSet, **options: Any) -> Evaluation:
        """Evaluate with a progress bar."""
        s = self.settings
        machine: dict[str, Any] = {"channels_last": s.channels_last, "workers": s.workers}
        with self.report.task("evaluating", len(data)) as tick:
            return evaluate(model, data, precision=s.precision, tick=tick, **machine, **options)

    def is_evaluated(self, epoch: int) -> bool:
        """Whether the held-out images are evaluated after this epoch."""
        s = self.settings
        return epoch == s.epochs - 1 or (epoch + 1) % s.evaluate_every == 0

    def estimate_left(self, epoch: int, seconds_per_step: float) -> float:
        """The seconds of the remaining steps and evaluations: three forward passes make a step."""
        s, model = self.settings, self.take_step.model
        images = self.test_images
        if self.validation is not None:
            images += len(self.validation) * sum(map(self.is_evaluated, range(epoch, s.epochs)))
        passes = images * (model.eval_samples[0] if model.is_random else 1)
        return seconds_per_step * (self.total_steps - self.step + passes / (3 * s.batch_size))

    def log_metrics(self, epoch: int) -> None:
        """Log the mean metrics since the last time; raise if any was not finite."""
        s = self.settings
        self.sums.check_finite()
        steps = self.step - self.logged_step
        images = steps * s.batch_size
        row: dict[str, Any] = {
            "step": self.step,
            "epoch": epoch,
            **self.sums.pop_means(steps, images),
            "lr": learning_rate(s, self.step - 1, self.steps_per_epoch),
            "beta": beta_at(s, self.step - 1, self.steps_per_epoch),
        }
        if not self.take_step.model.takes_mask:
            del row["excess"], row["mask_bits"], row["closed_share"]
        if self.quantizer is not None:
            row["perplexity"] = float(self.quantizer.perplexity())
        now = time.monotonic()  # after `pop_means`, which waited for the device
        interval = max(1e-9, now - self.log_time)
        row["images_per_second"] = images / interval
        row["seconds"] = now - self.began
        left = self.estimate_left(epoch, interval / steps)
        self.logged_step, self.log_time = self.step, now
        self.log(row)
        shown = {"profile": self.take_step.model.profile, "seconds_left": left}
        self.report.metrics(row | shown)
        self.last = row

    def end_epoch(self, epoch: int) -> None:
        """Validate if due; log the anchors."""
        s = self.settings
        row: dict[str, Any] = {"step": self.step, "epoch": epoch}
        last = epoch == s.epochs - 1
        due = self.is_evaluated(epoch)
        few_steps = last and self.total_steps < FEW_STEPS
        if (due and s.ema_batch_norm and (last or self.validation is not None)) or few_steps:
            count = s.ema_batch_norm or len(self.batches)
            self.take_step.estimate_batch_norm(self.batches.epoch(epoch), count)
        if self.validation is not None and due and self.fabric.is_global_zero:
            validation = self.validate(self.take_step.final_model, last)
            self.last_validation = validation
            row["validation"] = validation.to_dict()
            self.report.message(f"epoch {epoch + 1}: held-out error {validation.top1_error:.2f}%")
        if self.quantizer is not None:
            row["anchors"] = self.quantizer.anchors.tolist()
            row["usage"] = self.quantizer.usage.tolist()
        if len(row) > 2:
            self.log(row)
        self.log_time = time.monotonic()  # the next rate should not count this

    def log(self, row: dict[str, Any]) -> None:
        """Write a row to metrics.jsonl and to the loggers of the settings."""
        if not self.fabric.is_global_zero:
            return
        if self.run:
            self.run.log(row)
        held_out = {f"validation/{k}": v for k, v in row.get("validation", {}).items()}
        numbers = {k: v for k, v in (row | held_out).items() if isinstance(v, int | float)}
        self.fabric.log_dict(numbers, step=row["step"])

    def stop_if_asked(self, stop: SignalCatcher) -> None:
        """If any process caught a signal: write a checkpoint and raise `Interrupted`."""
        number = stop.signal or 0
        if self.hosts is not None:  # all processes agree on it after every step
            flag = torch.tensor(number)
            dist.all_reduce(flag, dist.ReduceOp.MAX, group=self.hosts)
            number = int(flag)  # not `stop.signal`: one may come in now, for the next step
        if not number:
            return
        self.sums.check_finite()
        self.save()
        self.fabric.barrier()  # a process that ends earlier would take the saving one with it
        how = f"; resume with {how_to_resume(self.run.folder)}" if self.run else ""
        raise Interrupted(f"stopped after step {self.step} of {self.total_steps}{how}", number)

    def save(self) -> None:
        """Write a checkpoint. Every process may call it; the first one writes."""
        if self.run is None or not self.fabric.is_global_zero:
            return
        self.take_step.check_finite(self.step)
        sums = self.sums.sums.cpu()
        progress = {"step": self.step, "looked_at": self.logged_step, "sums": sums}
        progress |= {"seconds": time.monotonic() - self.began, "images": self.batches.num_images}
        save_checkpoint(self.run.checkpoint, progress | self.take_step.state_dict())
        self.save_time = time.monotonic()

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the run's checkpoint and remove later rows of metrics."""
        assert self.run is not None
        try:
            self.take_step.load_state_dict(state)
            self.sums.sums.copy_(state["sums"])
            self.step, self.logged_step = int(state["step"]), int(state["looked_at"])
            self.seconds = float(state["seconds"])
            then, now = int(state["images"]), self.batches.num_images
            if then != now:
                raise ValueError(f"it is of {then:,} training images, and there are {now:,}")
            if not 0 <= self.logged_step <= self.step <= self.total_steps:
                raise ValueError(f"it is of step {self.step} of {self.total_steps}")
        except Exception as error:  # torch raises any kind for unexpected content
            raise AibError(
                f"{self.run.checkpoint} does not fit this run: {first_line(error)}"
            ) from error
        if self.fabric.is_global_zero:
            rows = self.run.truncate_metrics(self.step)
            self.last = next((row for row in reversed(rows) if "total" in row), {})
