"""Put a model or a run on the Hugging Face Hub, with its results and a model card."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from huggingface_hub import EvalResult, HfApi

from aib.config.settings import MACHINE
from aib.errors import AibError
from aib.evaluation.error import Evaluation, data_of, describe_evaluation, read_evaluations
from aib.interpret.stored import stored_verdict
from aib.models.classifier import Classifier, model_name
from aib.models.weights import (
    CONFIG,
    EVALUATION,
    METRICS,
    RECORDS,
    RESULT,
    SPLIT,
    WEIGHTS,
    read_config,
)
from aib.report.card import CARD, PICTURE, card_of
from aib.runs.download import readable_errors
from aib.runs.run import Run, find_model, open_run
from aib.system.files import read_json, without_folders, write_json

MAPS = Path("figures") / "modified.png"  # that `aib interpret` draws
NAMED = ("class_names", "classes")  # in our JSON files: a class may be called /m/01g317


def push_to_hub(
    source: Classifier | str | Path,
    repo: str,
    *,
    backbone: str | None = None,
    picture: bool = True,
    license: str | None = None,
    private: bool | None = None,
    branch: str | None = None,
    token: str | None = None,
) -> str:
    """Upload a model, or the folder of a model or run, to the Hub; return the commit's address.

    Model, results (of `aib eval` and `aib interpret`), training metrics and a model card are
    uploaded; checkpoints are not. `picture` adds the picture of maps that `aib interpret` drew,
    which shows images of the data. Folders of this machine are cut from all names.
    """
    if repo.count("/") != 1:
        raise AibError(f"the repository needs an owner, as in owner/name, not {repo!r}")
    with TemporaryDirectory() as saved, TemporaryDirectory() as upload:
        if isinstance(source, Classifier):
            source.save_pretrained(saved)
            run = Run(Path(saved), model_name(source), source, None)
        else:
            run = open_run(find_model(Path(source)), "cpu", backbone)
        write_upload(run, Path(upload), repo, picture=picture, license=license)
        with readable_errors(repo, branch):
            api = HfApi(token=token)
            api.create_repo(repo, private=private, exist_ok=True)
            commit = api.upload_folder(
                repo_id=repo,
                folder_path=upload,
                revision=branch,
                commit_message=f"Upload {run.name} with aib",
                delete_patterns=[*RECORDS, PICTURE],  # they may be of other weights
            )
    return str(commit)


def write_upload(
    run: Run, folder: Path, repo: str, *, picture: bool = True, license: str | None = None
) -> None:
    """Write the files of the repository into a folder."""
    shutil.copyfile(run.folder / WEIGHTS, folder / WEIGHTS)  # its checksum ties results to it
    config = read_config(run.folder / CONFIG)
    if run.settings is not None:
        settings = run.settings.to_dict()
        config["settings"] = {k: v for k, v in settings.items() if k not in MACHINE}
    files = {
        CONFIG: config,
        EVALUATION: {name: e.to_dict() for name, e in run.evaluations().items()},
        RESULT: read_json(run.folder / RESULT),
        SPLIT: read_json(run.folder / SPLIT),
    }
    for name, found in files.items():
        if found:
            write_json(folder / name, without_folders(found, keep=NAMED))
    if (run.folder / METRICS).is_file():
        shutil.copyfile(run.folder / METRICS, folder / METRICS)
    study = read_json(folder / RESULT) or {}
    # Maps of other weights are not these.
    picture = picture and study.get("weights_sha256") == run.checksum
    picture = picture and (run.folder / MAPS).is_file()
    if picture:
        shutil.copyfile(run.folder / MAPS, folder / PICTURE)
    results = read_evaluations(folder / EVALUATION)
    data = run.settings.data if run.settings else ""
    metadata = _metadata(repo, results, data, license)
    rows = [result_row(describe_evaluation(name, e), e) for name, e in results.items()]
    card = model_card(run, repo, without_folders(data), rows, metadata, picture=picture)
    (folder / CARD).write_text(card, encoding="utf-8")


def model_card(
    run: Run,
    repo: str,
    data: str,
    rows: list[list[str]],
    metadata: dict[str, Any],
    **more: Any,
) -> str:
    """The model card of a run, with the verdict that is stored with it."""
    verdict = stored_verdict(run)
    card = card_of(
        run.model,
        repo,
        data=data,
        verdict=verdict.verdict.name if verdict else "",
        reasons=without_folders(f"{verdict.verdict.text} {verdict.line}") if verdict else "",
        rows=rows,
        metadata=metadata,
        **more,
    )
    return str(card)


def result_row(name: str, e: Evaluation) -> list[str]:
    """A row of the card's table of results; `name` tells what was evaluated."""
    low, high = e.top1_interval
    return [
        name,
        f"{e.images:,}",
        f"{e.top1_error:.2f} ({low:.2f} to {high:.2f})",
        f"{e.calibration_error:.2f}",
        e.samples,
    ]


def _metadata(
    repo: str, results: dict[str, Evaluation], data: str, license: str | None
) -> dict[str, Any]:
    """What the Hub itself reads: the license, and one accuracy per data set (with its options)
    and split, the run's own where there are several; none on training images."""
    shown: dict[tuple[str, str], Evaluation] = {}
    for name, e in results.items():
        where, own = (data_of(name, e), e.split), name == without_folders(f"{data} {e.split}")
        if e.classes == "own" and e.split != "train" and (own or where not in shown):
            shown[where] = e
    accuracies = [
        EvalResult(
            task_type="image-classification",
            dataset_type=e.data,
            dataset_name=named,
            dataset_config=None if named == e.data else named,  # entries differ in type or config
            dataset_split=e.split,
            metric_type="accuracy",
            metric_value=round(1 - e.top1_error / 100, 6),
        )
        for (named, _), e in shown.items()
    ]
    found: dict[str, Any] = {"license": license}
    if accuracies:
        found |= {"model_name": repo.rpartition("/")[2], "eval_results": accuracies}
    return found
