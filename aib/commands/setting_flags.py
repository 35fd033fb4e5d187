"""Flags of the command line for all settings and model options, in groups, none set by default.

Which default a setting has depends on the preset, the model and the data. So the flags say what the
user has set, and the command adds the rest.
"""

import ast
import inspect
import types
import typing
from dataclasses import fields, make_dataclass
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal

import tyro

from aib.config.options import ModelOptions
from aib.config.own_images import SMALL, WARM
from aib.config.presets import PRESETS
from aib.config.settings import Settings, setting_types

GROUPS = {
    "data": ("data", "root", "holdout", "cache", "workers"),
    "model": (
        "model", "at", "pretrained", "backbone", "init",
        "freeze", "evaluator", "width", "dropout", "latent_dim", "head_norm", "pool_size",
        "num_anchors", "modulation", "profile",
    ),
    "mask": (
        "masked", "area", "lambda_area", "map_size", "map_stride", "noise_std", "stretch", "propose",
        "sample_map", "quantise_map",
    ),
    "objective": ("beta", "beta_warmup", "lambda_q", "lambda_c", "label_smoothing"),
    "optimisation": (
        "epochs", "batch_size", "accumulate", "optimizer", "lr", "lr_backbone", "momentum",
        "weight_decay", "clip", "schedule", "milestones", "gamma", "warmup", "ema",
        "ema_batch_norm", "revive_anchors", "seed",
    ),
    "augmentation": ("augment", "cutout", "trivial_augment", "alternate_flip"),
    "hardware": (
        "accelerator", "devices", "nodes", "precision", "channels_last", "compile",
        "graphs",
    ),
    "record": ("log_every", "checkpoint_every", "evaluate_every", "loggers"),
}  # fmt: skip
OFF = "no_"  # before the name of a setting: the flag that switches it off
DEPENDS = "[*]"  # depends on the model and the data


@cache
def with_setting_flags(options: type) -> type:
    """The dataclass of a command's options, with the flags of all settings in groups.

    A flag that is not given is None.
    """
    descriptions = describe_fields(Settings) | describe_fields(ModelOptions)
    types_of, defaults = setting_types(), Settings().to_dict()
    presets = [preset.settings.to_dict() for preset in PRESETS.values()]
    own = [WARM.to_dict(), SMALL.to_dict()]
    groups: list[Any] = []
    for group, names in GROUPS.items():
        flags: list[Any] = []
        for name in names:
            text, default = descriptions[name], _format(defaults[name])
            if any(values[name] != defaults[name] for values in own):
                default = DEPENDS
            if types_of[name] is not bool:
                flags.append((name, _flag(types_of[name], text, default), None))
                continue
            if defaults[name]:
                flags.append((OFF + name, _switch(f"Without {text[:1].lower()}{text[1:]}"), False))
                continue
            flags.append((name, _switch(text), False))
            if any(values[name] for values in (*presets, *own)):
                undo = f"Undo --{name.replace('_', '-')} of a preset."
                flags.append((OFF + name, _switch(undo), False))
        made: Any = make_dataclass(group, flags, frozen=True)
        groups.append((group, Annotated[made, tyro.conf.arg(name=group)], made()))
    name, about = options.__name__, {"__doc__": options.__doc__}
    return make_dataclass(name, groups, bases=(options,), frozen=True, namespace=about)


def given_settings(options: Any) -> dict[str, Any]:
    """The settings that were given on the command line, by name."""
    given: dict[str, Any] = {}
    for group in (getattr(options, name) for name in GROUPS):
        for f in fields(group):
            value = getattr(group, f.name)
            if value is True and f.name.startswith(OFF):
                given[f.name.removeprefix(OFF)] = False
            elif value is not None and value is not False:
                given[f.name] = None if value == "None" else value
    return given


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


def _switch(text: str) -> Any:
    return Annotated[bool, tyro.conf.arg(help=text, help_behavior_hint="")]


def _flag(kind: Any, text: str, default: str) -> Any:
    """The annotation of a setting's flag: its type or None, its help and its default."""
    nullable = type(None) in typing.get_args(kind)  # --clip None undoes what a preset sets
    kinds: Any = kind | Literal["None"] if nullable else kind
    arg = tyro.conf.arg(help=text, help_behavior_hint=default, metavar=_metavar(kind))
    return Annotated[kinds | None, tyro.conf.DisallowNone, arg]


def _metavar(kind: Any) -> str:
    """What stands for the value in the help."""
    arguments = [one for one in typing.get_args(kind) if one is not type(None)]
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _metavar(arguments[0])
    if origin is Literal:
        return "NAME"
    if origin is tuple:
        inner = _metavar(arguments[0])
        return f"{inner} ..." if ... in arguments else " ".join([inner] * len(arguments))
    return {int: "INT", float: "FLOAT"}.get(kind, "TEXT")


def _format(value: Any) -> str:
    """A default in the help; nothing for False, None and empty lists."""
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"[{text}]" if value not in (None, False, []) else ""
