"""The study that `aib interpret` left in a run's folder, and its verdict."""

import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from aib.errors import AibError, AibWarning
from aib.interpret.results import SCHEMA, Study
from aib.interpret.verdict import MEANING, Verdict
from aib.models.weights import RESULT
from aib.runs.run import Run
from aib.system.files import read_json

ORIGIN = ("weights_sha256", "data", "split")
EXPENSIVE = ("localisation", "faithfulness", "randomised_layers")  # that --quick leaves out


@dataclass(frozen=True)
class StoredVerdict:
    """The verdict in a run's folder, and on what it was measured."""

    verdict: Verdict
    measured: str

    @property
    def line(self) -> str:
        """Short form, for captions."""
        return f"map: {self.verdict.name} ({self.measured})"

    @property
    def text(self) -> str:
        """What the verdict means, and what it was measured on."""
        return f"{MEANING[self.verdict.name]} ({self.measured})."

    def to_dict(self) -> dict[str, object]:
        """Plain JSON types."""
        return asdict(self.verdict) | {"measured": self.measured}


def stored_verdict(run: Run) -> StoredVerdict | None:
    """The verdict of the study in the run's folder; None without one, or without a map.

    A study of other weights counts, and says so: packaged weights are rounded after theirs. One of
    a newer version of aib is left out with a warning.
    """
    path = study_folder(run) / RESULT
    stored = read_json(path)
    if stored is None:
        return None
    schema = stored.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        text = f"{path} was written by a newer version of aib and is left out"
        warnings.warn(text, AibWarning, stacklevel=2)
        return None
    try:
        found = Study.from_dict(stored)
        verdict = found.verdict
    except (AibError, ArithmeticError, AttributeError, LookupError, TypeError) as error:
        raise AibError(f"{path} holds no study ({error}): remove it, or write it again") from error
    if verdict is None:
        return None
    measured = f"measured on {found.measured_on()}"
    if found.weights_sha256 != run.checksum:
        measured += ", with other weights than these"
    if is_of_repository(run):
        measured += ", as its repository says"
    return StoredVerdict(verdict, measured)


def study_folder(run: Run) -> Path:
    """The folder of a run's study. For a model of the Hub: what was measured here, unless the
    repository's study of the same data holds more."""
    here = read_json(run.output / RESULT) if run.repo else None
    if here is None:
        return run.folder
    its_own = read_json(run.folder / RESULT)
    if its_own is None or its_own.get("schema") != here.get("schema"):
        return run.output
    return run.folder if lost_parts(its_own, here) else run.output


def is_of_repository(run: Run) -> bool:
    """Whether the run's study comes from the Hub with the model."""
    return run.repo is not None and study_folder(run) == run.folder


def lost_parts(study: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """What a study holds and another one, of the same weights and data, does not."""
    if any(study.get(key) != other.get(key) for key in ORIGIN):
        return []
    lost = [key for key in (*EXPENSIVE, "evaluator") if study.get(key) and not other.get(key)]
    before, now = study.get("images"), other.get("images")
    if isinstance(before, int) and isinstance(now, int) and before > now:
        lost.append(f"{before - now:,} images")
    return [part.replace("_", " ") for part in lost]
