"""Gather what a run's page shows: the files in its folder, and what has to be measured."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aib.config.settings import Settings
from aib.data import Batches
from aib.errors import AibError
from aib.evaluation.error import Evaluation, evaluate
from aib.interpret.results import SCHEMA, Study
from aib.interpret.runs import feed_for, study_run
from aib.interpret.stored import is_of_repository, study_folder
from aib.interpret.studies import Plan
from aib.models.weights import CONFIG, EVALUATION, RESULT, read_config
from aib.report.gallery import Gallery, make_gallery
from aib.runs.files import final_split, measured_split, read_metrics
from aib.runs.run import Run
from aib.system.files import quoted, read_json
from aib.system.progress import Tick, silent


@dataclass(frozen=True)
class RunContent:
    """Everything that the page shows of one run. What is missing is None, with a note."""

    label: str
    model: str
    source: str  # that opens the run again
    environment: dict[str, Any]  # of the training
    settings: Settings | None
    metrics: list[dict[str, Any]]  # rows of metrics.jsonl
    evaluations: dict[str, Evaluation]
    own_evaluation: Evaluation | None  # on test images if they were evaluated, else on held-out
    study: Study | None = None  # interpret.json
    calibrated: Evaluation | None = None  # with the bins of the reliability diagram
    gallery: Gallery | None = None
    pictures: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()


def gather(
    run: Run,
    *,
    data: str | None = None,
    root: str | None = None,
    images: int = 1000,
    subset: int = 64,
    seed: int = 0,
    stored: bool = False,
    like: Run | None = None,
    tick: Tick = silent,
) -> RunContent:
    """Read a run's folder; measure what is missing there on at most `images` images: test images,
    or the held-out ones of a run whose test images were not evaluated.

    With `stored` nothing is measured and no data are read. `like` is the run whose images are
    used where several runs are compared.
    """
    study, note = read_study(run, data)
    notes = [note] if note else []
    # Pictures are drawn together with the study: of other weights, both are left out.
    pictures = tuple(sorted((study_folder(run) / "figures").glob("*.png"))) if study else ()
    evaluations, gallery = run.evaluations(), None
    if len(evaluations) < len(run.stored_evaluations()):
        notes.append(
            f"{EVALUATION} has results of other weights than the run's: they are left out."
        )
    calibrated = own = _own_evaluation(run, evaluations)
    if own and own.split == "val" and run.settings and measured_split(run.settings.data) == "test":
        notes.append(
            f"The test images were not evaluated, as training held out images to choose settings "
            f"on: `aib eval {quoted(run.source)}` evaluates them."
        )
    if data is not None or (own and own.calibration_bins is None):
        calibrated = None
    if not stored:
        try:
            dataset = run.labelled(run.images(data, _split(like or run, data), root, like))
            feed = feed_for(run, dataset, images=images, seed=seed)
            if calibrated is None:
                calibrated = evaluate(run.model, dataset.subset(feed.indices), seed=seed)
            tick("calibration", feed.num_images)
            gallery = make_gallery(run.model, feed, seed=seed)
            if study is None:
                source = like or run
                measured = data or (source.settings.data if source.settings else dataset.name)
                study = _measure(run, feed, measured, subset, seed, tick)
        except AibError as error:
            if data is not None:
                raise  # the user named the data; the run's own data may well be elsewhere
            notes.append(f"Nothing could be measured on images: {error}.")
    return RunContent(
        label=run.label,
        model=run.name,
        source=run.source,
        environment=read_config(run.folder / CONFIG).get("environment", {}),
        settings=run.settings,
        metrics=read_metrics(run.folder),
        evaluations=evaluations,
        own_evaluation=own,
        study=study,
        calibrated=calibrated,
        gallery=gallery,
        pictures=pictures,
        notes=tuple(notes),
    )


def _own_evaluation(run: Run, evaluations: dict[str, Evaluation]) -> Evaluation | None:
    name = run.settings.own_evaluation(evaluations) if run.settings else None
    return evaluations[name] if name else None


def _split(run: Run, data: str | None) -> str | None:
    """The split that the run was evaluated on; None, the default, for other data."""
    if data is not None or run.settings is None:
        return None
    own = _own_evaluation(run, run.evaluations())
    return own.split if own else final_split(run.settings)


def _measure(run: Run, feed: Batches, data: str, subset: int, seed: int, tick: Tick) -> Study:
    """The study of `aib interpret`, without foreign images."""
    note = (
        f"Measured for this page on {feed.num_images:,} images, without occlusion by foreign "
        "images; `aib interpret` measures in full."
    )
    plan = Plan(subset=subset, seed=seed)
    return study_run(run, feed, plan, data, notes=[note], tick=tick)[0]


def read_study(run: Run, data: str | None) -> tuple[Study | None, str]:
    """interpret.json, or a note on why it is not used: it must be of these weights and data.

    A study of a repository has a note that it was not made here.
    """
    stored = read_json(study_folder(run) / RESULT)
    if stored is None:
        return None, ""
    if stored.get("schema") != SCHEMA:
        return None, f"{RESULT} was written by another version of aib and is left out."
    if data is not None and stored.get("data") != data:
        return None, f"{RESULT} is about {stored.get('data')}, not {data}, and is left out."
    if stored.get("weights_sha256") != run.checksum:
        return None, f"{RESULT} was measured with other weights than the run's and is left out."
    note = ""
    if is_of_repository(run):
        note = (
            f"The verdict and the study of the maps are those of the repository {run.repo}: "
            f"`aib interpret {quoted(run.source)}` measures here."
        )
    return Study.from_dict(stored), note
