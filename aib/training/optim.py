"""Parameter groups, the optimizer, and the schedules of learning rate and beta."""

import math

import torch
from torch import Tensor, nn

from aib.config.profiles import get_profile
from aib.config.settings import Settings
from aib.errors import AibError
from aib.models.classifier import Classifier
from aib.models.quantize import AnchorQuantizer

NORMS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)


def parameter_groups(
    model: nn.Module,
    weight_decay: float,
    decay_all: bool = False,
    *,
    scaled: frozenset[str] = frozenset(),
    scale: float = 1.0,
) -> list[dict]:
    """Three groups: weights, which decay; norms and biases, and anchors, which do not.

    Decay would pull every anchor to 0, and an anchor is a level of the map, not a weight.
    `decay_all` decays everything, as the released code does. The parameters named in `scaled` get
    groups of their own, whose learning rate is `scale` times that of the others.
    """
    groups: dict[tuple[str, float], list[nn.Parameter]] = {}
    kinds = ("weights", "norms_and_biases", "anchors")
    groups |= {(kind, factor): [] for factor in (1.0, scale) for kind in kinds}
    for prefix, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            if not parameter.requires_grad:
                continue
            kind = "weights"
            if isinstance(module, AnchorQuantizer):
                kind = "anchors"
            elif isinstance(module, NORMS) or "bias" in name.split("_"):  # in_proj_bias, bias_k
                kind = "norms_and_biases"
            factor = scale if f"{prefix}.{name}" in scaled else 1.0
            groups[kind, factor].append(parameter)
    return [
        {
            "name": kind,
            "lr_scale": factor,
            "params": list(dict.fromkeys(parameters)),  # a tied weight counts once
            "weight_decay": weight_decay if kind == "weights" or decay_all else 0.0,
        }
        for (kind, factor), parameters in groups.items()
        if parameters
    ]


def make_optimizer(
    model: Classifier, s: Settings, on_device: bool = False
) -> torch.optim.Optimizer:
    """SGD with momentum (Nesterov's if the profile says so) or AdamW, over the groups.

    `on_device` allows a learning rate that is a tensor on the GPU, which the host never reads.
    """
    profile = get_profile(model.profile)
    names, scale = model.pretrained_names, 1.0
    if s.lr_backbone is not None:
        if not names:
            raise AibError(
                "lr_backbone is for pretrained weights: add --init or --pretrained, or leave it "
                "out (--lr-backbone None)"
            )
        scale = s.lr_backbone / s.lr
    groups = parameter_groups(model, s.weight_decay, profile.decay_all, scaled=names, scale=scale)
    fused = on_device or None  # None: PyTorch's own choice
    if s.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=s.lr, capturable=on_device, fused=fused)
    nesterov = profile.nesterov and s.momentum > 0
    return torch.optim.SGD(groups, lr=s.lr, momentum=s.momentum, nesterov=nesterov, fused=fused)


def load_optimizer_state(optimizer: torch.optim.Optimizer, saved: dict) -> None:
    """Load the state of each parameter; options such as momentum stay as the settings say."""
    optimizer.load_state_dict(optimizer.state_dict() | {"state": saved["state"]})
    for parameter, state in optimizer.state.items():
        for name, value in state.items():
            fits = value is None or isinstance(value, int | float)
            if isinstance(value, Tensor):
                fits = value.dim() == 0 or value.shape == parameter.shape
            if not fits:
                raise ValueError(f"{name} does not have the shape of its parameter")


def learning_rate(s: Settings, step: int, steps_per_epoch: int) -> float:
    """The learning rate of a step. It depends on the step alone, so resuming needs no state."""
    epoch = step / steps_per_epoch
    if epoch < s.warmup:
        # At most lr, also if the warm-up ends between two steps.
        return s.lr * min(1.0, (step + 1) / (s.warmup * steps_per_epoch))
    if s.schedule == "cosine":
        share = (epoch - s.warmup) / max(1e-9, s.epochs - s.warmup)
        return s.lr * 0.5 * (1 + math.cos(math.pi * min(1.0, share)))
    return s.lr * s.gamma ** sum(int(epoch) >= milestone for milestone in s.milestones)


def area_at(target: float, step: int, total_steps: int) -> float:
    """The area budget of a step: 1 until 5% of the training, linear to the target at 45%."""
    share = (step / max(1, total_steps) - 0.05) / 0.40
    return 1 - (1 - target) * min(1.0, max(0.0, share))


def beta_at(s: Settings, step: int, steps_per_epoch: int) -> float:
    """beta of a step: linear from 0 over the warm-up, then constant."""
    rising = s.beta_warmup * steps_per_epoch
    return s.beta if step >= rising else s.beta * step / rising
