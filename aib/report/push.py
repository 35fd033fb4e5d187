"""Put a model or a run on the Hugging Face Hub, with its results and a model card."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from huggingface_hub import HfApi

from aib.config.settings import MACHINE
from aib.errors import AibError
from aib.evaluation.error import describe_evaluation
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
from aib.report.card import CARD, PICTURE, model_card
from aib.runs.download import readable_errors
from aib.runs.run import Run, open_run
from aib.system.files import read_json, without_folders, write_json, write_text

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
            run = open_run(Path(source), "cpu", backbone)
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
    config, evaluations = read_config(run.folder / CONFIG), run.evaluations()
    study = read_json(run.folder / RESULT) or {}
    data = ""
    if run.settings is not None:
        data = without_folders(run.settings.data)
        settings = run.settings.to_dict()
        config["settings"] = {k: v for k, v in settings.items() if k not in MACHINE}
    files = {
        CONFIG: config,
        EVALUATION: {name: e.to_dict() for name, e in evaluations.items()},
        RESULT: study,
        SPLIT: read_json(run.folder / SPLIT),
    }
    for name, content in files.items():
        if content:
            write_json(folder / name, without_folders(content, keep=NAMED))
    copied = {WEIGHTS: WEIGHTS, METRICS: METRICS}
    if picture and study.get("weights_sha256") == run.checksum:  # not maps of other weights
        copied[PICTURE] = str(MAPS)
    for name, path in copied.items():
        if (run.folder / path).is_file():
            shutil.copyfile(run.folder / path, folder / name)
    results = {without_folders(describe_evaluation(name, e)): e for name, e in evaluations.items()}
    has_picture = (folder / PICTURE).is_file()
    card = model_card(run, repo, data, results, {"license": license}, picture=has_picture)
    write_text(folder / CARD, card)
