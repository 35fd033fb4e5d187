"""Flags of the command line for all settings and model options, in groups."""

import ast
import inspect
import re
import typing
from collections.abc import Sequence
from dataclasses import make_dataclass
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal

import tyro

from aib.commands.arguments import CONFIG
from aib.config.options import ModelOptions
from aib.config.own_images import OWN
from aib.config.presets import Preset
from aib.config.settings import Settings, setting_types

GROUPS = {
    "data": ("data", "root", "holdout", "cache", "workers"),
    "model": (
        "model", "at", "pretrained", "backbone", "init",
        "freeze", "freeze_norm", "evaluator", "width", "dropout", "latent_dim", "head_norm",
        "pool_size", "num_anchors", "modulation", "profile",
    ),
    "mask": ("masked", "area", "budget", "lambda_area", "noise_std", "propose", "map_stride"),
    "objective": (
        "teacher", "distill", "beta", "beta_warmup", "lambda_q", "lambda_c", "label_smoothing",
    ),
    "optimisation": (
        "head_epochs", "epochs", "batch_size", "accumulate", "optimizer", "lr", "lr_backbone",
        "momentum", "weight_decay", "clip", "schedule", "milestones", "gamma", "warmup", "ema",
        "ema_batch_norm", "seed",
    ),
    "augmentation": ("augment", "cutout", "trivial_augment", "alternate_flip"),
    "hardware": (
        "accelerator", "devices", "nodes", "precision", "channels_last", "compile",
        "graphs",
    ),
    "record": ("log_every", "checkpoint_every", "evaluate_every", "loggers"),
}  # fmt: skip


def run_name(preset: Preset | None, s: Settings) -> str:
    """How the folder of a run is named."""
    name = preset.name if preset else f"{s.data}-{s.model}"
    return re.sub("[:/]", "-", name)


def parse_settings(options: type, argv: Sequence[str], prog: str) -> tuple[Any, dict[str, Any]]:
    """The options of a command, and the settings that were given, by name.

    Which default a setting has depends on the preset, the model and the data.
    """
    # In pairs (--compile, --no-compile) the flags would double the length of the help.
    off = {"--no-" + n.replace("_", "-"): n for n, kind in setting_types().items() if kind is bool}
    words = [word for word in argv if word not in off]
    parsed: Any = tyro.cli(_with_settings(options), args=words, prog=prog, config=CONFIG)
    given = {w.partition("=")[0][2:].replace("-", "_") for w in words if w.startswith("--")}
    groups = [vars(getattr(parsed, group)) for group in GROUPS]
    found = {name: v for one in groups for name, v in one.items() if name in given}
    return parsed, found | {off[word]: False for word in argv if word in off}


@cache
def _with_settings(options: type) -> type:
    """The dataclass of a command's options, with a group of flags for each group of settings."""
    helps = describe_fields(Settings) | describe_fields(ModelOptions)
    types = setting_types()
    defaults, own = (vars(s) | vars(s.options) for s in (Settings(), OWN))
    groups: list[Any] = []
    for group, names in GROUPS.items():
        flags = []
        for name in names:
            hint = "[*]" if own[name] != defaults[name] else _default(defaults[name])
            kind = types[name]
            about = tyro.conf.arg(help=helps[name], help_behavior_hint=hint, metavar=_metavar(kind))
            flags.append((name, Annotated[kind, about], kind is not bool and defaults[name]))
        made: Any = make_dataclass(group, flags, frozen=True)
        groups.append((group, Annotated[made, tyro.conf.arg(name=group)], made()))
    doc = {"__doc__": options.__doc__}
    return make_dataclass(options.__name__, groups, bases=(options,), frozen=True, namespace=doc)


def _default(value: Any) -> str:
    """The default in the help, unless it is off or empty."""
    text = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return "" if value in (None, False, ()) else f"[{text}]"


def _metavar(kind: Any) -> str | None:
    """What stands for the value in the help; flags take none."""
    if typing.get_origin(kind) is Literal:
        return "NAME"
    if kinds := [one for one in typing.get_args(kind) if one is not type(None)]:
        return f"{_metavar(kinds[0])}" + " ..." * (... in kinds)
    return {bool: None, int: "INT", float: "FLOAT"}.get(kind, "TEXT")


def describe_fields(cls: type) -> dict[str, str]:
    """The first line of the docstring below each field of a dataclass."""
    [definition] = ast.parse(inspect.getsource(cls)).body
    assert isinstance(definition, ast.ClassDef)
    return {
        one.target.id: ast.literal_eval(text.value).strip().partition("\n")[0]
        for one, text in pairwise(definition.body)
        if isinstance(one, ast.AnnAssign) and isinstance(text, ast.Expr)
        if isinstance(one.target, ast.Name)
    }
