"""The content of a run's page: the files that train, eval and interpret left in its folder."""

from collections.abc import Iterator
from dataclasses import replace

from aib.data import has_split
from aib.interpret.stored import is_of_repository, read_study, study_folder
from aib.models.weights import CONFIG, read_config
from aib.report.content import RunContent
from aib.runs.files import read_metrics
from aib.runs.run import Run
from aib.system.files import quoted


def gather(run: Run) -> RunContent:
    """Read a run's folder. Results of other weights than the run's are left out."""
    study = read_study(run)
    if study is not None and study.weights_sha256 != run.checksum:
        study = None
    content = RunContent(
        label=run.label,
        model=run.name,
        environment=read_config(run.folder / CONFIG).get("environment", {}),
        settings=run.settings,
        metrics=read_metrics(run.folder),
        evaluations=run.evaluations(),
        study=study,
        pictures=tuple(sorted((study_folder(run) / "figures").glob("*.png"))) if study else (),
    )
    return replace(content, notes=tuple(_notes(run, content)))


def _notes(run: Run, content: RunContent) -> Iterator[str]:
    """What is missing, with the command that measures it, and whose results are shown."""
    evaluation, source = content.own_evaluation, quoted(run.source)
    if evaluation is None:
        yield f"error: not measured; run `aib eval {source}`"
    elif evaluation.split == "val" and run.settings and has_split(run.settings.data, "test"):
        yield f"test images: not evaluated; run `aib eval {source}`"
    if content.study is None:
        yield f"map: not measured; run `aib interpret {source}`"
    elif is_of_repository(run):
        yield f"map: measured by {run.repo} itself; run `aib interpret {source}` to check it"
