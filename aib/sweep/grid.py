"""Parse the knobs of a sweep: `beta=1e-3,1e-2` on the command line to values of a setting."""

import typing
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from aib.errors import AibError
from aib.settings import MACHINE, Settings, setting_types
from aib.validation import describe, fits

# The paper's letters for two of the settings.
ALIASES = {"K": "latent_dim", "Q": "num_anchors"}
LETTERS = {name: letter for letter, name in ALIASES.items()}

Value = str | int | float | bool | None
WORDS = {"none": None, "true": True, "yes": True, "false": False, "no": False}


@dataclass(frozen=True)
class Grid:
    """A knob and its values."""

    name: str  # of the setting
    values: tuple[Value, ...]

    @property
    def knob(self) -> str:
        """Its name, with the paper's letter where there is one."""
        return LETTERS.get(self.name, self.name)


def knobs() -> dict[str, Any]:
    """Types of the settings that can be varied. The seed is none of them: `--seeds` repeats."""
    hints, others = setting_types(), MACHINE | {"seed"}
    simple = {
        n: h for n, h in hints.items() if n not in others and typing.get_origin(h) is not tuple
    }
    return {letter: simple[name] for letter, name in ALIASES.items()} | simple


def parse_grid(text: str) -> Grid:
    """Parse 'K=64,128'. Values get the setting's type; repeated values count once."""
    knob, equals, listed = text.partition("=")
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
    words = [word.strip() for word in listed.split(",")]
    if not all(words):
        raise AibError(f"the values of {knob} are written {knob}=VALUE,VALUE, not {text!r}")
    values = [parse_value(knob, known[knob], word) for word in words]
    return Grid(ALIASES.get(knob, knob), tuple(dict.fromkeys(values)))


def parse_value(knob: str, hint: Any, word: str) -> Value:
    """Parse one value as the setting's type; `none` where the setting is optional."""
    for convert in (WORDS.__getitem__, int, float, str):
        with suppress(KeyError, ValueError):
            value: Value = convert(word.lower() if convert == WORDS.__getitem__ else word)
            if fits(value, hint):
                return value
    raise AibError(f"{knob} must be {describe(hint)}, not {word!r}")


def check_grids(grids: typing.Sequence[Grid]) -> None:
    """Require at least one grid, and no knob twice."""
    if not grids:
        raise AibError(
            "nothing to vary: name a knob, such as --grid beta=1e-3,1e-2,1e-1, or use --quick"
        )
    names = [grid.name for grid in grids]
    twice = next((grid for grid in grids if names.count(grid.name) > 1), None)
    if twice is not None:
        spelt = f"{twice.knob} ({twice.name})" if twice.knob != twice.name else twice.name
        raise AibError(f"{spelt} has two grids; write its values into one")


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


def format_value(value: Value) -> str:
    """A value as text that parses back to it; 1.0 is written 1."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e6:
        return str(int(value))
    return str(value)


def escape_for_folder(text: str) -> str:
    """Text for a folder's name; different texts stay different."""
    return quote(text, safe="-_+.")
