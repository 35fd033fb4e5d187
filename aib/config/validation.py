"""Validation of settings and JSON values against the types and ranges of their annotations.

    lr: Annotated[float, above(0)] = 0.1

is all that has to be written: `check_fields` in `__post_init__` raises a readable error for a
value of another type or outside the range, and `parse_json` also names the file.
"""

import difflib
import math
import types
import typing
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from aib.errors import AibError


class Rule(NamedTuple):
    """A condition on a value, and how an error message words it."""

    text: str
    holds: Callable[[Any], bool]


def at_least(low: float) -> Rule:
    """Rule: low <= value."""
    return Rule(f"of at least {low:g}", lambda value: value >= low)


def above(low: float) -> Rule:
    """Rule: low < value."""
    return Rule(f"above {low:g}", lambda value: value > low)


SHOWN = 12  # names in an error message
Count = Annotated[int, at_least(1)]
NonNegativeInt = Annotated[int, at_least(0)]
NonNegative = Annotated[float, at_least(0)]
Positive = Annotated[float, above(0)]
Fraction = Annotated[float, Rule("of at least 0 and below 1", lambda value: 0 <= value < 1)]
# Some random generators take no other seeds.
Seed = Annotated[int, Rule("of at least 0 and below 2^31", lambda value: 0 <= value < 2**31)]

# The values that options choose from. The command line validates them without importing torch.
ProfileName = Literal["paper", "released"]
Modulation = Literal["gate", "residual"]
NumAnchors = Annotated[int, at_least(2)]
Precision = Literal["fp32", "bf16", "fp16"]
Cache = Literal["auto", "memory", "none"]  # of decoded images
Averaging = Literal["probabilities", "logits"]
Budget = Literal["mean", "image"]  # of the area: for the mean over images, or for each image
Method = Literal["own", "gradcam"]


def check(name: str, value: object, hint: Any) -> None:
    """Raise a readable error unless `value` has the annotated type and obeys its rules."""
    if not fits(value, hint):
        raise AibError(f"{name} must be {describe(hint)}, not {value!r:.80}")


def check_decided(broken: int, count: int) -> None:
    """Raise an error if `broken` of `count` images got NaN in place of a prediction."""
    if broken:
        raise AibError(f"the model gives NaN for {broken} of the {count} images")


def check_seed(seed: int) -> None:
    """Raise an error for a seed that some generator does not take."""
    check("seed", seed, Seed)


def check_fields(record: Any) -> None:
    """Check every field of a dataclass against its annotation."""
    kind: type = type(record)
    for name, hint in _hints(kind).items():
        check(name, getattr(record, name), hint)


@cache  # a dataclass is checked for each of its objects
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)


def parse_json(kind: Any, value: Any, where: Path | str) -> Any:
    """A dataclass, or the type of one of its fields, from plain JSON types.

    A missing key takes the field's default; unknown keys are ignored. Errors name file and field.
    """
    try:
        return _parse(kind, value, "")
    except AibError as error:
        raise AibError(f"{where}: {error}") from error


def _parse(kind: Any, value: Any, name: str) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        value = _parse(arguments[0], value, name)
    elif origin in (typing.Union, types.UnionType):
        others = [one for one in arguments if one is not type(None)]
        if value is None and len(others) < len(arguments):
            return None
        if len(others) == 1:
            return _parse(others[0], value, name)
        for one in others:
            with suppress(AibError):
                return _parse(one, value, name)
    elif origin is tuple and isinstance(value, list | tuple):
        kinds = arguments[:1] * len(value) if arguments[-1] is ... else arguments
        if len(kinds) == len(value):
            pairs = enumerate(zip(kinds, value, strict=True))
            value = tuple(_parse(one, item, f"{name}[{i}]") for i, (one, item) in pairs)
    elif origin is dict and isinstance(value, dict):
        inside = {k: _parse(arguments[1], v, f"{name}.{k}".strip(".")) for k, v in value.items()}
        try:
            return {arguments[0](k): v for k, v in inside.items()}  # JSON's keys are strings
        except ValueError as error:
            raise AibError(f"{name} has a key that is not {describe(arguments[0])}") from error
    elif is_dataclass(kind) and isinstance(value, dict):
        hints = _hints(kind)  # type: ignore[arg-type]  # mypy: a class has no hash
        given = {k: v for k, v in value.items() if k in hints}
        known = {k: _parse(hints[k], v, f"{name}.{k}".strip(".")) for k, v in given.items()}
        try:
            return typing.cast(Any, kind)(**known)
        except TypeError as error:
            raise AibError(f"{name or 'it'} lacks {str(error).partition(': ')[2]}") from error
    check(name or "it", value, kind)
    return float(value) if kind is float else value


def reject_unknown(
    given: Iterable[str], known: Iterable[str], message: str, listing: str = ""
) -> None:
    """Raise an error for the first unknown name: the message, and the closest known names.

    Where none is close, it names the command `listing` that lists all, or else the first ones.
    """
    known = list(known)
    for name in given:
        if name not in known:
            if close := difflib.get_close_matches(name, known, n=3):
                hint = f"did you mean {', '.join(close)}?"
            elif listing:
                hint = f"`{listing}` lists all"
            else:
                hint = f"there are {', '.join(known[:SHOWN])}{', ...' * (len(known) > SHOWN)}"
            raise AibError(f"{message} {name!r}; {hint}")


def describe(hint: Any) -> str:
    """The values that an annotation allows, for an error message."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        base, *rules = arguments
        return " ".join([describe(base), *(r.text for r in rules if isinstance(r, Rule))])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(describe, arguments))
    if origin is Literal:
        return "one of " * (len(arguments) > 1) + ", ".join(map(repr, arguments))
    if origin is tuple:
        if arguments[-1] is ...:
            return f"a list, each {describe(arguments[0])}"
        return f"{len(arguments)} values, each {describe(arguments[0])}"
    names = {int: "an integer", float: "a number", bool: "true or false", str: "a string"}
    names |= {type(None): "None"}
    return names.get(hint, "an object")


def fits(value: Any, hint: Any) -> bool:
    """Whether the value has the annotated type and obeys its rules."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        base, *rules = arguments
        return fits(value, base) and all(r.holds(value) for r in rules if isinstance(r, Rule))
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, argument) for argument in arguments)
    if origin is Literal:
        return isinstance(value, str) and value in arguments
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        hints = [arguments[0]] * len(value) if arguments[-1] is ... else arguments
        return len(value) == len(hints) and all(map(fits, value, hints))
    if hint is Any:
        return True
    if hint in (int, float) and isinstance(value, bool):
        return False
    if hint is float:  # an integer will do, as JSON may write 1 for 1.0
        return isinstance(value, int | float) and _is_finite(value)
    return isinstance(value, origin or hint)


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer of hundreds of digits
        return False
