"""A knob and its values: from `beta=1e-3,1e-2` on the command line to settings."""

import types
import typing
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

from aib.errors import AibError
from aib.settings import MACHINE, Settings, setting_types

# The paper's letters for two of the settings.
ALIASES = {"K": "latent_dim", "Q": "num_anchors"}
LETTERS = {name: letter for letter, name in ALIASES.items()}

Value = str | int | float | bool | None


@dataclass(frozen=True)
class Grid:
    """One knob with the values it is to take."""

    name: str  # of the setting
    values: tuple[Value, ...]

    @property
    def knob(self) -> str:
        """As the paper writes it."""
        return LETTERS.get(self.name, self.name)


def knobs() -> dict[str, Any]:
    """The types of what can be varied, by name. A seed is not a knob: `--seeds` repeats."""
    hints, others = setting_types(), MACHINE | {"seed"}
    simple = {
        n: h for n, h in hints.items() if n not in others and typing.get_origin(h) is not tuple
    }
    return {letter: simple[name] for letter, name in ALIASES.items()} | simple


def parse_grid(text: str) -> Grid:
    """'K=64,128' to a grid. Values have the setting's type; one written twice counts once."""
    knob, equals, written = text.partition("=")
    knob = knob.strip()
    if not equals:
        raise AibError(f"a grid is written KNOB=VALUE,VALUE such as beta=0.001,0.01, not {text!r}")
    known = knobs()
    if knob in MACHINE:
        raise AibError(
            f"{knob} is no knob: it says where and how a run is done, not what is trained"
        )
    if knob not in known:
        aside = "; --seeds repeats each run with other seeds" if knob == "seed" else ""
        raise AibError(f"no knob {knob!r}{aside}; there are {', '.join(known)}")
    words = [word.strip() for word in written.split(",")]
    if not all(words):
        raise AibError(f"the values of {knob} are written {knob}=VALUE,VALUE, not {text!r}")
    values = [parse_value(knob, known[knob], word) for word in words]
    return Grid(ALIASES.get(knob, knob), tuple(dict.fromkeys(values)))


def parse_value(knob: str, hint: Any, word: str) -> Value:
    """One value of a setting's type; `none` where the setting may be left open."""
    kinds = (
        typing.get_args(hint)
        if typing.get_origin(hint) in (typing.Union, types.UnionType)
        else (hint,)
    )
    if type(None) in kinds and word.lower() == "none":
        return None
    choices = [c for kind in kinds if typing.get_origin(kind) is Literal for c in kind.__args__]
    if choices:
        if word in choices:
            return word
        raise AibError(f"{knob} must be one of {', '.join(choices)}, not {word!r}")
    [kind] = [kind for kind in kinds if kind is not type(None)]
    flags = {"true": True, "yes": True, "false": False, "no": False}
    try:
        return flags[word.lower()] if kind is bool else kind(word)
    except (KeyError, ValueError) as error:
        rule = {bool: "true or false", int: "a whole number", float: "a number"}[kind]
        raise AibError(f"{knob} must be {rule}, not {word!r}") from error


def check_grids(grids: typing.Sequence[Grid]) -> None:
    """At least one, and no knob twice."""
    if not grids:
        raise AibError(
            "nothing to vary: name a knob, such as --grid beta=1e-3,1e-2,1e-1, or take --quick"
        )
    names = [grid.name for grid in grids]
    twice = next((grid for grid in grids if names.count(grid.name) > 1), None)
    if twice is not None:
        spelt = f"{twice.knob} ({twice.name})" if twice.knob != twice.name else twice.name
        raise AibError(f"{spelt} has two grids; write its values into one")


def quick_grids(base: Settings) -> tuple[Grid, ...]:
    """Three points for each of the paper's three knobs, around what `base` has for them."""
    latent_dim, num_anchors = base.options.latent_dim, base.options.num_anchors
    if latent_dim is None or num_anchors is None or not base.beta:
        raise AibError("--quick varies beta, K and Q around the preset's own: it has to have them")
    beta = tuple(float(f"{base.beta * times:.12g}") for times in (0.1, 1, 10))
    size = tuple(dict.fromkeys((max(2, latent_dim // 4), latent_dim, 4 * latent_dim)))
    anchors = tuple(dict.fromkeys((2, num_anchors, 5 * num_anchors)))
    return (Grid("beta", beta), Grid("latent_dim", size), Grid("num_anchors", anchors))


def written(value: Value) -> str:
    """A value in words: the shortest that reads back as it, 1 for 1.0."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e6:
        return str(int(value))
    return str(value)


def safe(text: str) -> str:
    """As part of a folder's name, different for different texts."""
    return quote(text, safe="-_+.")
