"""Results files hold what was done, and not where."""

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

import aib
from aib.cli import main
from aib.commands import train
from aib.config.presets import get_preset
from aib.config.settings import Settings
from aib.training.folder import RunFolder
from tests.tools.results.stored import RESULTS, changed, evaluation, stored, write_finished_run
from tools.results.__main__ import main as results
from tools.results.collect import collect
from tools.results.command import portable, train_command
from tools.results.read import StoredRun, read_results


def test_a_results_file_names_no_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["aib", "train", "--root", "/home/someone/data"])
    folder = write_finished_run(tmp_path / "a", 4.0, epochs=7)
    notes = [f"no svhn images under {Path.home()}/data"]
    study = {"faithfulness": {}, "environment": {}, "notes": notes, "run": str(folder)}
    study["evaluator"] = {"run": "/home/someone/evaluator"}
    (folder / "interpret.json").write_text(json.dumps(study))
    found = collect([folder], "title")
    [run] = found["runs"]
    assert run["interpret"].pop("notes") == ["no svhn images under ~/data"]
    evaluator = {"run": "evaluator"}
    assert run["interpret"] == {"faithfulness": {}, "environment": {}, "evaluator": evaluator}
    assert run["recipe"] == {"data": "cifar10", "model": "tiny_aib_qt", "epochs": 7}
    assert run["environment"]["command"] == "aib train --root data"
    assert "/home" not in json.dumps(found) and str(tmp_path) not in json.dumps(found)
    model = aib.create_model("tiny_aib_qt")
    assert run["parameters"] == sum(p.numel() for p in model.parameters())


def test_runs_are_added_to_a_file_in_place_of_older_ones(tmp_path):
    first = [write_finished_run(tmp_path / name, 4.0) for name in ("a", "b")]
    out = tmp_path / "some.json"
    results(["collect", *map(str, first), "--title", "Title", "--note", "Old.", "--out", str(out)])
    more = [write_finished_run(tmp_path / "again" / name, 3.0) for name in ("a", "c")]
    results(["collect", *map(str, more), "--note", "New.", "--add", "--out", str(out)])
    found = json.loads(out.read_text())
    assert (found["title"], found["note"]) == ("Title", "New.")
    errors = {r["name"]: r["evaluations"][r["reported"]]["top1_error"] for r in found["runs"]}
    assert errors == {"a": 3.0, "b": 4.0, "c": 3.0} and list(errors) == ["a", "b", "c"]
    with pytest.raises(aib.AibError, match="no .*nothing.json to add"):
        results(["collect", str(more[0]), "--add", "--out", str(tmp_path / "nothing.json")])
    with pytest.raises(aib.AibError, match="--title"):
        results(["collect", str(more[0]), "--out", str(out)])


def test_no_stored_file_names_a_folder_of_the_machine():
    for path in RESULTS.glob("*.json"):
        assert not re.search(r"""["' =:]/[A-Za-z]""", path.read_text()), path


def test_only_paths_are_removed_from_a_command():
    typed = "aib eval '/a b/run' --root=/x/y --data folder:/c/d:image_size=64 --init vgg16:/w/v.npz"
    facts = {"torch": "2.13", "command": typed}
    left = "aib eval run --root=y --data folder:d:image_size=64 --init vgg16:v.npz"
    assert portable(facts) == facts | {"command": left}
    assert portable({"command": None}) == {"command": None}


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        get_preset("cifar10_fast").settings,
        replace(get_preset("cifar10_fast").settings, seed=3),
        changed(get_preset("cifar10_fast").settings, lr=0.4, milestones=[3, 7], head_norm=True),
        Settings(data="shapes:count=40", compile=True, augment=False, clip=0.5, beta=1e-4),
    ],
)
def test_the_command_gives_the_recipe_back(settings, monkeypatch):
    trained = []
    monkeypatch.setattr(train, "start", lambda options, name: trained.append(options.settings))
    assert main(shlex.split(train_command(settings.recipe()))[1:]) == 0
    assert [s.recipe() for s in trained] == [settings.recipe()]


def test_an_unfinished_run_is_an_error(tmp_path):
    folder = write_finished_run(tmp_path / "a", 4.0)
    (folder / "evaluation.json").unlink()
    with pytest.raises(aib.AibError, match="is not a finished run"):
        collect([folder], "t")


def test_a_run_with_a_holdout_reports_test_images_if_they_were_evaluated(tmp_path):
    folder = write_finished_run(tmp_path / "a", 4.0, holdout=0.1)  # as older versions left it
    assert collect([folder], "t")["runs"][0]["reported"] == "cifar10 test"
    (folder / "evaluation.json").unlink()
    run = RunFolder(folder)
    run.write_evaluation("stl10 test own 4x12", evaluation(50.0, "stl10"))
    with pytest.raises(aib.AibError, match="not evaluated on its own data: run `aib eval"):
        collect([folder], "t")
    run.write_evaluation("cifar10 val", evaluation(6.0, split="val"))
    (found,) = collect([folder], "t")["runs"]
    assert StoredRun.from_dict(found).error == 6.0
    assert StoredRun.from_dict(found).on_held_out
    for step, error in ((20, 60.0), (40, 6.0)):  # of the last epoch
        held_out = evaluation(error, split="val")
        run.log({"step": step, "epoch": 2, "error": error + 1, "validation": held_out})
    run.write_evaluation("cifar10 test", evaluation(5.0))
    (found,) = collect([folder], "t")["runs"]
    assert found["evaluations"][found["reported"]]["top1_error"] == 5.0
    assert (found["held_out"]["top1_error"], found["training_error"]) == (6.0, 7.0)


def without(name: str) -> dict:
    content = stored("shapes_vgg.json")
    content["runs"][0].pop(name)
    return content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no results in"),
        ({"a": 1}, "is not a file of"),
        ({"kind": "runs"}, "it has no 'runs'"),
        ({"kind": "runs", "runs": 3}, "not a complete results file"),
        ({"kind": "runs", "runs": [None]}, "not a complete results file"),
        (without("model"), "it has no 'model'"),
        (without("evaluations"), "it has no 'evaluations'"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, content, message):
    if content is not None:
        (tmp_path / "some.json").write_text(json.dumps(content))
    with pytest.raises(aib.AibError, match=message):
        read_results(tmp_path)
