"""One training step: forward and backward pass, clipping, optimizer and weight average."""

import hashlib
import math
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from lightning.fabric import Fabric
from torch import Tensor, nn

from aib.config.profiles import get_profile
from aib.config.settings import Settings
from aib.config.validation import Budget
from aib.errors import AibError
from aib.models.classifier import Classifier, model_name
from aib.models.gaussian import widen
from aib.models.loss import aib_loss
from aib.models.masked import CLOSED, Masked
from aib.models.modes import autocast
from aib.training.cuda_graph import CapturedStep
from aib.training.ema import WeightAverage, estimate_batch_norm
from aib.training.freeze import FrozenLayers, frozen_norms
from aib.training.metrics import MEANS, average_over_ranks, not_finite
from aib.training.optim import area_at, beta_at, learning_rate, load_optimizer_state, make_optimizer

AREA = MEANS.index("area")


class Objective(nn.Module):
    """Model and loss in one forward pass: what is compiled, and what data parallelism wraps."""

    def __init__(self, model: Classifier, s: Settings, teacher: nn.Module | None = None):
        super().__init__()
        self.model, self.teacher = model, teacher
        self.weights = {name: getattr(s, name) for name in ("lambda_q", "lambda_c", "lambda_area")}
        self.budget = budget_of(model, s)
        self.kl_weight = kl_weight(model)
        self.label_smoothing = s.label_smoothing

    def forward(
        self, x: Tensor, y: Tensor, beta: Tensor, area: Tensor, before: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The loss to minimise, and the metrics that are logged: `MEANS` and wrong predictions.

        before: [sum of the mean areas, number] of the parts of this batch that came before.
        """
        out = self.model(x)
        target = smooth_labels(y, self.model.num_classes, self.label_smoothing)
        if self.teacher is not None:
            target, y = self.teacher(x, y, target)
        passed = closed = torch.zeros((), device=x.device)
        if isinstance(self.model, Masked) and out.mask is not None:
            passed = self.model.mask_bits(x, out.mask).mean()
            opened = widen(out.mask.detach()).mean((0, 2, 3))  # [B]
            closed = (opened < CLOSED).float().mean()
            if self.budget == "mean":  # of the whole batch: this part may use what others leave
                mean = average_over_ranks((opened.mean() + before[0]) / (before[1] + 1))
                area = area + opened.mean() - mean
        terms = aib_loss(
            out,
            target,
            beta * self.kl_weight,
            area=area,
            budget=self.budget,
            profile=self.model.profile,
            **self.weights,
        )
        wrong = (out.logits.detach().argmax(-1) != y).sum()
        logged = [*terms.detached().values(), passed, closed, wrong.float()]
        return terms.total, torch.stack(logged)


def budget_of(model: Classifier, s: Settings) -> Budget:
    """The budget of the settings; by default that of the mean for photographs and networks."""
    small = model.recipe.get("kind") == "named" and model.recipe["image_size"] == 32
    return s.budget or ("image" if small else "mean")


def check_budget(model: Classifier, s: Settings) -> None:
    """Refuse settings of the budget for a model that has none."""
    plain = Settings()
    for name in ("budget", "lambda_area"):
        if getattr(s, name) != getattr(plain, name) and not isinstance(model, Masked):
            raise AibError(f"{model_name(model)} makes no mask: {name} changes nothing")


def has_trained_map(model: Classifier) -> bool:
    """Whether the map comes from trained weights: its area then needs no ramp."""
    parts = {name for name, _ in model.named_parameters() if name.startswith("propose.")}
    return bool(parts) and parts <= model.pretrained_names


def smooth_labels(y: Tensor, num_classes: int, share: float) -> Tensor:
    """Move this share of each label to all classes alike: indices [B] to probabilities [B,C]."""
    if not share:
        return y
    rest = share / num_classes
    labels = torch.full((len(y), num_classes), rest, device=y.device)
    return labels.scatter_(1, y[:, None], 1 - share + rest)


def kl_weight(model: Classifier) -> float:
    """The profile's weight beside beta: the released code halves the KL of VGG at 32."""
    recipe = model.recipe
    if recipe.get("kind") != "named":
        return 1.0
    family = recipe["name"].partition("_")[0], recipe["image_size"]
    return get_profile(model.profile).kl_weight.get(family, 1.0)


def seed_step(seed: int, step: int, part: int, rank: int) -> None:
    """Seed the noise of one forward pass by its position in the training.

    The noise is then a function of (seed, step, part, rank) alone: a resumed run needs no saved
    random state, and an evaluation in between changes nothing.
    """
    digest = hashlib.blake2b(f"{seed} {step} {part} {rank}".encode(), digest_size=7).digest()
    torch.manual_seed(int.from_bytes(digest, "big"))


class TrainingStep:
    """Model, optimizer and weight average, and the step that updates them.

    Nothing in a step waits for the device.
    """

    def __init__(
        self,
        model: Classifier,
        s: Settings,
        fabric: Fabric,
        steps_per_epoch: int,
        teacher: nn.Module | None = None,
    ):
        self.settings, self.fabric, self.steps_per_epoch = s, fabric, steps_per_epoch
        single = fabric.world_size == 1
        cuda = fabric.device.type == "cuda"
        if cuda and not single:
            nn.SyncBatchNorm.convert_sync_batchnorm(model)  # in place, below the top module
        self.memory_format = torch.channels_last if s.channels_last else torch.contiguous_format
        self.model: Classifier = model.to(  # type: ignore[call-overload]
            fabric.device, memory_format=self.memory_format
        )
        self.average = WeightAverage(self.model, s.ema) if s.ema else None
        self.kept = s.freeze, (self.model.pretrained_names if s.freeze_norm else ())
        self.frozen = FrozenLayers(self.model, *self.kept)
        if teacher is not None:
            teacher.to(memory_format=self.memory_format)  # type: ignore[call-overload]
        objective: nn.Module = Objective(self.model, s, teacher)
        if s.compile:
            objective = torch.compile(objective)  # type: ignore[assignment]
        capture = s.graphs and single and cuda
        optimizer = make_optimizer(self.model, s, on_device=capture)
        self.objective, self.optimizer = fabric.setup(objective, optimizer)
        # Tensors: floats would be compiled into the step, or captured with it.
        self.beta = torch.zeros((), device=fabric.device)
        self.area = torch.ones((), device=fabric.device)
        self.before = torch.zeros(2, device=fabric.device)
        self.budget = float(self.model.recipe.get("area", 1.0))  # of a masked model's map
        self.ramp = not has_trained_map(self.model)
        # The learning rate of each group, for a captured step.
        count = len(optimizer.param_groups) if capture else 0
        self.rates = [torch.zeros((), device=fabric.device) for _ in range(count)]
        self.captured = CapturedStep(self.update_from) if capture else None
        # Each part adds its share of the means, and all of its wrong predictions.
        share = [1 / s.accumulate] * len(MEANS) + [1.0]
        self.share = torch.tensor(share, device=fabric.device)

    @property
    def final_model(self) -> Classifier:
        """The model to evaluate and save: with averaged weights if there is an average."""
        return self.average.model if self.average else self.model

    def __call__(self, batches: Iterator[tuple[Tensor, Tensor]], step: int) -> tuple[Tensor, ...]:
        """Update the weights; return the metrics of this step and the gradient's norm."""
        self.set_rates(step)
        if self.captured:
            return self.captured(*self.next_part(batches, step, 0))
        parts = range(self.settings.accumulate)
        metrics = [self.backward(*self.next_part(batches, step, part), part) for part in parts]
        return torch.stack(metrics).sum(0), self.update()

    def set_rates(self, step: int) -> None:
        """Set the learning rate, beta and area budget of this step."""
        rate = learning_rate(self.settings, step, self.steps_per_epoch)
        for i, group in enumerate(self.optimizer.param_groups):
            mine = rate * group["lr_scale"]
            group["lr"] = self.rates[i].fill_(mine) if self.rates else mine
        self.beta.fill_(beta_at(self.settings, step, self.steps_per_epoch))
        total_steps = self.settings.epochs * self.steps_per_epoch
        self.area.fill_(area_at(self.budget, step, total_steps) if self.ramp else self.budget)

    def next_part(
        self, batches: Iterator[tuple[Tensor, Tensor]], step: int, part: int
    ) -> tuple[Tensor, Tensor]:
        """Images and labels of one part; also seed the noise of its forward pass."""
        x, y = next(batches)
        seed_step(self.settings.seed, step, part, self.fabric.global_rank)
        return x.contiguous(memory_format=self.memory_format), y

    def update_from(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """A step of a single part, as a CUDA graph captures it."""
        return self.backward(x, y, part=0), self.update()

    def backward(self, x: Tensor, y: Tensor, part: int) -> Tensor:
        """Add this part's gradient; return its share of the step's metrics."""
        accumulate = self.settings.accumulate
        more = part < accumulate - 1
        with self.fabric.no_backward_sync(self.objective, enabled=more):
            loss, metrics = self.objective(x, y, self.beta, self.area, self.before)
            self.fabric.backward(loss / accumulate)
        if accumulate > 1:
            self.before += torch.stack([metrics[AREA], torch.ones_like(metrics[AREA])])
            self.before *= more  # the next part belongs to another batch
        return metrics * self.share

    def update(self) -> Tensor:
        """Clip the gradient, update weights and average; return the gradient's norm."""
        s = self.settings
        norm = self.fabric.clip_gradients(
            self.objective, self.optimizer, max_norm=s.clip or math.inf, error_if_nonfinite=False
        )
        assert norm is not None
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.average:
            self.average.update(self.model)
        # fp16 has infinite gradients while its loss scale settles, and skips those steps itself.
        return torch.zeros_like(norm) if s.precision == "fp16" else norm

    def estimate_batch_norm(self, batches: Iterator[tuple[Tensor, Tensor]], count: int) -> None:
        """Estimate the BatchNorm statistics of the final model anew from this many batches."""
        s = self.settings
        images = (x.contiguous(memory_format=self.memory_format) for x, _ in islice(batches, count))
        with autocast(self.fabric.device, s.precision):
            kept = frozen_norms(self.final_model, *self.kept)
            estimate_batch_norm(self.final_model, images, kept, self.fabric.global_rank)

    def check_finite(self, step: int) -> None:
        """Raise if a weight is not finite, which the loss need not show."""
        named = list(self.model.named_parameters())
        finite = torch.stack([p.detach().isfinite().all() for _, p in named]).tolist()
        lost = [name for (name, _), fine in zip(named, finite, strict=True) if not fine]
        if lost:
            raise not_finite(step, lost)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint holds of model, optimizer and average."""
        return {
            "pretrained_names": sorted(self.model.pretrained_names),  # they have rates of their own
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "average": self.average.model.state_dict() if self.average else None,
            "precision": self.fabric.strategy.precision.state_dict(),  # fp16's loss scale
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        self.model.load_state_dict(state["model"])
        load_optimizer_state(self.optimizer.optimizer, state["optimizer"])
        if self.average:
            self.average.model.load_state_dict(state["average"])
        self.fabric.strategy.precision.load_state_dict(state["precision"])
