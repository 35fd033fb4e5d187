"""The study that `aib interpret` left in a run's folder, and its verdict."""

from pathlib import Path

from aib.config.validation import parse_json
from aib.errors import AibError
from aib.interpret.results import SCHEMA, Study
from aib.interpret.verdict import StoredVerdict
from aib.models.weights import RESULT
from aib.runs.run import Run
from aib.system.files import read_json


def study_folder(run: Run) -> Path:
    """The folder of a run's study; of a model of the Hub, what was measured here goes first."""
    return run.output if (run.output / RESULT).is_file() else run.folder


def is_of_repository(run: Run) -> bool:
    """Whether the run's study comes from the Hub with the model."""
    return run.repo is not None and study_folder(run) == run.folder


def read_study(run: Run) -> Study | None:
    """The study in the run's folder; None without one."""
    path = study_folder(run) / RESULT
    stored = read_json(path)
    if stored is None:
        return None
    if stored.get("schema") != SCHEMA:
        raise AibError(f"{path} is of another version of aib: run `aib interpret` again")
    try:
        return parse_json(Study, stored, "the results of a study")
    except AibError as error:
        raise AibError(f"{path} holds no study ({error}): remove it") from error


def stored_verdict(run: Run) -> StoredVerdict | None:
    """The verdict of the study in the run's folder; None without one, or without a map.

    A study of other weights counts, and says so: packaged weights are rounded after theirs.
    """
    found = read_study(run)
    if found is None or found.verdict is None:
        return None
    measured = f"measured on {found.measured_on()}"
    if found.weights_sha256 != run.checksum:
        measured += ", with other weights than these"
    if is_of_repository(run):
        measured += ", as its repository says"
    return StoredVerdict(found.verdict, measured)
