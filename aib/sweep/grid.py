"""What a sweep varies: settings with the values that they take, as text and as Python."""

import typing
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from aib.config.settings import MACHINE, Settings, setting_types
from aib.config.validation import describe, fits
from aib.errors import AibError

ALIASES = {"K": "latent_dim", "Q": "num_anchors"}  # the paper's letters for two settings
LETTERS = {name: letter for letter, name in ALIASES.items()}

Value = str | int | float | bool | None
WORDS = {"none": None, "true": True, "yes": True, "false": False, "no": False}


@dataclass(frozen=True)
class Grid:
    """A setting and the values that it takes."""

    name: str
    values: tuple[Value, ...]

    @property
    def knob(self) -> str:
        """Its name, with the paper's letter where there is one."""
        return LETTERS.get(self.name, self.name)


def parse_grid(text: str) -> Grid:
    """Parse 'K=64,128'. Values get the setting's type; repeated values count once."""
    knob, _, listed = (part.strip() for part in text.partition("="))
    words = [word.strip() for word in listed.split(",")]
    if not all(words):
        raise AibError(f"a grid is written KNOB=VALUE,VALUE such as beta=0.001,0.01, not {text!r}")
    name, types = ALIASES.get(knob, knob), setting_types()
    if name == "holdout":
        raise AibError(
            "holdout changes the images that a run is evaluated on, so that the results could not "
            "be compared: set it for all runs with --holdout"
        )
    fixed = MACHINE | {"seed", "holdout", "evaluator"}  # and lists
    known = [n for n, h in types.items() if n not in fixed and typing.get_origin(h) is not tuple]
    if name not in known:
        raise AibError(
            f"no knob {knob!r}; there are {', '.join([*ALIASES, *known])}; --seeds repeats each "
            "run with other seeds"
        )
    values = [parse_value(knob, types[name], word) for word in words]
    return Grid(name, tuple(dict.fromkeys(values)))


def parse_value(knob: str, hint: Any, word: str) -> Value:
    """Parse one value as the setting's type; `none` where the setting is optional."""
    for convert in (lambda text: WORDS[text.lower()], int, float, str):
        with suppress(KeyError, ValueError):
            value: Value = convert(word)
            if fits(value, hint):
                return value
    raise AibError(f"{knob} must be {describe(hint)}, not {word!r}")


def format_value(value: Value) -> str:
    """A value as text that parses back to it; 1.0 is written 1."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e6:
        return str(int(value))
    return str(value)


def check_grids(grids: Sequence[Grid]) -> None:
    """Require at least one grid, and no knob twice."""
    if not grids:
        raise AibError(
            "nothing to vary: name a knob, such as --grid beta=1e-3,1e-2,1e-1, or use --quick"
        )
    names = [grid.name for grid in grids]
    for grid in grids:
        if names.count(grid.name) > 1:
            letter = f" ({grid.name})" if grid.knob != grid.name else ""
            raise AibError(f"{grid.knob}{letter} has two grids; write its values into one")


def quick_grids(base: Settings) -> tuple[Grid, ...]:
    """Three values for each of the paper's three knobs, around those of `base`."""
    latent_dim, num_anchors = base.options.latent_dim, base.options.num_anchors
    if latent_dim is None or num_anchors is None or not base.beta:
        raise AibError(
            "--quick varies beta, K and Q around the preset's own values, but it has none"
        )
    beta = tuple(float(f"{base.beta * times:.12g}") for times in (0.1, 1, 10))
    size = tuple(dict.fromkeys((max(2, latent_dim // 4), latent_dim, 4 * latent_dim)))
    anchors = tuple(dict.fromkeys((2, num_anchors, 5 * num_anchors)))
    return (Grid("beta", beta), Grid("latent_dim", size), Grid("num_anchors", anchors))
