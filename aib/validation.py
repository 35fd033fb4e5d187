"""Validation of settings and JSON values against the types and ranges of their annotations.

    lr: Annotated[float, above(0)] = 0.1

is all that has to be written: `check_fields` in `__post_init__` raises a readable error for a
value of another type or outside the range, and `from_json` also names the file.
"""

import difflib
import math
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from aib.errors import AibError

T = TypeVar("T")


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


def between(low: float, high: float) -> Rule:
    """Rule: low <= value <= high."""
    return Rule(f"from {low:g} to {high:g}", lambda value: low <= value <= high)


Count = Annotated[int, at_least(1)]
NonNegativeInt = Annotated[int, at_least(0)]
NonNegative = Annotated[float, at_least(0)]
Positive = Annotated[float, above(0)]
Fraction = Annotated[float, Rule("of at least 0 and below 1", lambda value: 0 <= value < 1)]
# Some random generators take no other seeds.
Seed = Annotated[int, Rule("of at least 0 and below 2^31", lambda value: 0 <= value < 2**31)]


def check(name: str, value: object, hint: Any) -> None:
    """Raise a readable error unless `value` has the annotated type and obeys its rules."""
    if not _fits(value, hint):
        raise AibError(f"{name} must be {describe(hint)}, not {value!r}")


def check_fields(record: Any) -> None:
    """Check every field of a dataclass against its annotation."""
    for name, hint in typing.get_type_hints(type(record), include_extras=True).items():
        check(name, getattr(record, name), hint)


def from_json(cls: type[T], values: dict[str, Any], where: Path) -> T:
    """A dataclass from a JSON object; errors name the file. A missing key takes its default."""
    ready = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
    try:
        reject_unknown(values, typing.get_type_hints(cls), "no setting")
        return cls(**ready)
    except AibError as error:
        raise AibError(f"{where}: {error}") from error


def parse_json(kind: Any, value: Any, where: str) -> Any:
    """A dataclass, or the type of one of its fields, from plain JSON types.

    A missing key takes the field's default; unknown keys are ignored. An error names the field.
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any or (origin is Literal and value in arguments):
        return value
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return _one_of([k for k in arguments if k is not type(None)], value, where)
    if origin is tuple and isinstance(value, list | tuple):
        kinds = arguments[:1] * len(value) if arguments[-1] is ... else arguments
        if len(kinds) == len(value):
            pairs = enumerate(zip(kinds, value, strict=True))
            return tuple(parse_json(k, v, f"{where}[{i}]") for i, (k, v) in pairs)
    if origin is dict and isinstance(value, dict):
        return {k: parse_json(arguments[1], v, f"{where}.{k}") for k, v in value.items()}
    if is_dataclass(kind) and isinstance(value, dict):
        return _dataclass_from(kind, value, where)
    if kind is float and type(value) is int and abs(value) < 1e300:  # JSON may write 1.0 as 1
        return float(value)
    if isinstance(kind, type) and type(value) is kind:  # bool is no int here
        return value
    raise AibError(f"{where} cannot be {value!s:.60}")


def _one_of(kinds: list[Any], value: Any, where: str) -> Any:
    for kind in kinds[:-1]:
        try:
            return parse_json(kind, value, where)
        except AibError:
            continue
    return parse_json(kinds[-1], value, where)


def _dataclass_from(kind: Any, value: dict[str, Any], where: str) -> Any:
    hints, names = typing.get_type_hints(kind), {field.name for field in fields(kind)}
    known = {k: parse_json(hints[k], v, f"{where}.{k}") for k, v in value.items() if k in names}
    try:
        return kind(**known)
    except TypeError as error:
        raise AibError(f"{where} lacks {str(error).partition(': ')[2]}") from error


def reject_unknown(given: Iterable[str], known: Iterable[str], message: str) -> None:
    """Raise an error for the first unknown name: the message, and the closest known names."""
    known = list(known)
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=3) or known
            raise AibError(f"{message} {name!r}; did you mean {', '.join(close)}?")


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
    return names.get(hint) or ("None" if hint is type(None) else f"a {hint.__name__}")


def _fits(value: Any, hint: Any) -> bool:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        base, *rules = arguments
        return _fits(value, base) and all(r.holds(value) for r in rules if isinstance(r, Rule))
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, argument) for argument in arguments)
    if origin is Literal:
        return isinstance(value, str) and value in arguments
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        hints = [arguments[0]] * len(value) if arguments[-1] is ... else arguments
        return len(value) == len(hints) and all(map(_fits, value, hints))
    if hint in (int, float) and isinstance(value, bool):
        return False
    if hint is float:  # an integer will do, as JSON may write 1 for 1.0
        return isinstance(value, int | float) and _is_finite(value)
    return isinstance(value, hint)


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer of hundreds of digits
        return False
