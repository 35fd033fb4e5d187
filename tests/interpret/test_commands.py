"""`aib explain` and `aib interpret`, as a user meets them."""

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from aib.cli import main
from aib.data import load
from aib.data.split import sample_indices
from aib.interpret.metrics.perturb import modifications
from aib.interpret.results import Study
from aib.interpret.stored import stored_verdict
from aib.runs.run import open_run
from aib.system.files import sha256
from tests.data import official
from tests.helpers import eval_model, make_run, photo, shapes, small_model


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "qt")


def study_of(lost: float) -> dict:
    """A stored study in which another map costs so much accuracy."""
    drop = {"accuracy": 0.9 - lost, "drop": lost, "low": lost - 0.005, "high": lost + 0.005}
    replaced = dict.fromkeys(("mean", "shuffled", "another"), drop)
    reliance = {"images": 1000, "accuracy": 0.9, "replaced": replaced, "harm": 0.01, "chance": 0.1}
    study = Study("tiny_aib_qt", 1000, 90.0, {}, data="shapes")
    return study.to_dict() | {"split": "test", "reliance": reliance | {"verdict": "stored"}}


def test_a_verdict_says_which_images_it_was_measured_on_and_how_many_the_evaluator_saw(tmp_path):
    folder = make_run(tmp_path / "run")
    study = study_of(0.3) | {"split": "val", "subset_images": 64}
    study["weights_sha256"] = sha256(folder / "model.safetensors")
    judged = {"run": "evaluator", "accuracy": 80.0, "maps": {}}
    for evaluator, part in ((None, ""), (judged, ", by the evaluator on 64 of them")):
        (folder / "interpret.json").write_text(json.dumps(study | {"evaluator": evaluator}))
        found = stored_verdict(open_run(folder, "cpu"))
        assert found.line == f"map: used (measured on 1,000 held-out images of shapes{part})"
    # Of a folder without splits, which need not be images of the training.
    (folder / "interpret.json").write_text(json.dumps(study | {"split": "train"}))
    line = stored_verdict(open_run(folder, "cpu")).line
    assert line == "map: used (measured on 1,000 images of shapes, split train)"


def test_a_study_removes_the_pictures_of_an_earlier_comparison(tmp_path):
    first, second = (make_run(tmp_path / name, "tiny_aib", seed=i) for i, name in enumerate("ab"))
    few = ["--quick", "--images", "4", "--foreign", "shapes"]
    assert main(["interpret", str(first), str(second), *few]) == 0
    pictures = first / "figures"
    photo().save(pictures / "mine.png")
    assert (pictures / "modified_compared.png").is_file()
    stored = (first / "interpret.json").read_text()
    assert main(["interpret", str(first), *few]) == 2  # a study is not replaced unasked
    assert (first / "interpret.json").read_text() == stored
    assert main(["interpret", "--run", str(first), *few, "--overwrite"]) == 0
    assert {path.name for path in pictures.iterdir()} == {"modified.png", "mine.png"}


def test_the_table_names_the_files_of_a_folder(run, tmp_path):
    photos, table = official.write_folder(tmp_path / "photos", classes=2), tmp_path / "images.csv"
    for i, name in enumerate(shapes(2).class_names[:2]):
        (photos / f"class_{i}").rename(photos / name)
    words = ["interpret", str(run), "--data", f"folder:{photos}", "--out", str(tmp_path)]
    few = ["--quick", "--images", "3", "--foreign", "shapes", "--csv", str(table)]
    assert main([*words, *few]) == 0
    with table.open() as file:
        rows = list(csv.DictReader(file))
    paths = sorted(photos.glob("*/*.png"))
    assert [row["file"] for row in rows] == [
        str(paths[int(row["index"])].relative_to(photos)) for row in rows
    ]
    assert len(rows) == 3 and all(Path(row["file"]).parent.name == row["class"] for row in rows)


@pytest.fixture(scope="module")
def compared(run, tmp_path_factory):
    """Three runs compared on the same images, once for all tests below."""
    folder = tmp_path_factory.mktemp("compared")
    other = make_run(folder / "released", "tiny_aib", profile="released")
    plain = make_run(folder / "plain", "tiny")
    table = folder / "images.csv"
    words = ["interpret", str(run), str(other), str(plain), "--foreign", "shapes"]
    assert main([*words, "--images", "16", "--subset", "4", "--csv", str(table)]) == 0
    return {"qt": run, "released": other, "plain": plain}, table


def test_interpret_writes_every_answer_into_the_run(compared):
    result = json.loads((compared[0]["qt"] / "interpret.json").read_text())
    assert result["images"] == 16 and result["subset_images"] == 4
    assert list(result["stability"]) == list(modifications("shapes"))
    assert {"own", "centre", "random"} <= set(result["localisation"])
    assert set(result["faithfulness"]) == set(result["localisation"])
    assert result["verdict"]["name"] == result["reliance"]["verdict"] == "undecided"
    assert result["verdict"]["reasons"]
    assert set(result["encoding"]["probe"]) == {"map", "mask", "centre"}
    assert set(result["reliance"]["replaced"]) == {"mean", "shuffled", "another"}
    assert result["randomised_layers"] and result["information"]["kl_bits"] > 0
    pictures = compared[0]["qt"] / "figures"
    alone, together = (
        Image.open(pictures / name).height for name in ("modified.png", "modified_compared.png")
    )
    assert together > 1.2 * alone  # a further row of maps below each row of images
    with compared[1].open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 16 and "file" not in rows[0]  # shapes are generated
    by_run = {name: [row for row in rows if row["run"] == name] for name in compared[0]}
    for name, each in by_run.items():  # the same images; without maps no similarity of maps
        assert [row["index"] for row in each] == [row["index"] for row in by_run["qt"]]
        assert all(bool(row["color-8_cosine"]) == (name != "plain") for row in each)
        assert sum(bool(row["centre_deletion"]) for row in each) == 4  # the subset
        assert sum(bool(row["own_insertion"]) for row in each) == (0 if name == "plain" else 4)
    plain = json.loads((compared[0]["plain"] / "interpret.json").read_text())
    right = [float(row["correct"]) for row in by_run["plain"]]
    assert plain["accuracy"] == pytest.approx(100 * sum(right) / 16)
    assert "own" not in plain["localisation"] and plain["reliance"]["verdict"] is None
    assert "no single" in plain["reliance"]["words"]
    assert not list(compared[0]["plain"].glob("figures/*"))


def test_small_images_have_no_larger_blocks_and_are_not_compared_with_others(run, tmp_path, capsys):
    policy = replace(shapes(2).preprocessing, image_size=8)
    folder = make_run(tmp_path / "run", model=small_model("tiny_aib_qt", preprocessing=policy))
    assert main(["interpret", str(folder), "--images", "4", "--quick", "--foreign", "shapes"]) == 0
    result = json.loads((folder / "interpret.json").read_text())
    blocks = [name for name in result["stability"] if name.startswith(("color", "shapes"))]
    assert blocks == ["color-4", "color-8", "shapes-4", "shapes-8"]
    assert any("larger than the images of 8 x 8" in note for note in result["notes"])
    assert main(["interpret", str(run), str(folder), "--data", "shapes:count=8"]) == 2
    assert "compare them separately" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--out", "file"], ["--csv", "file/a.csv"]])
def test_results_that_cannot_be_written_are_not_measured(words, run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    monkeypatch.setattr("aib.interpret.runs.study_run", lambda *_, **__: pytest.fail("measured"))
    assert main(["interpret", str(run), "--images", "6", "--quick", *words]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_official_files_are_looked_for_where_the_user_or_the_run_says(tmp_path, monkeypatch):
    """The run's own folder of files counts for its own data, and for the foreign set."""
    data = "cub200:image_size=32"
    files, pictures = tmp_path / "files", tmp_path / "pictures"
    official.write_cub(files)
    official.write_cifar10(pictures)
    model = eval_model("tiny_aib", load(data, "test", root=files), num_classes=3)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AIB_DATA", str(tmp_path / "empty"))

    def study(name, trained_on, root, words):
        folder = make_run(tmp_path / name, "tiny_aib", model, data=trained_on, root=str(root))
        few = "--foreign cifar10 --subset 4 --workers 0 --out out"
        assert main(["interpret", str(folder), *few.split(), *words.split()]) == 0
        return [json.loads(path.read_text()) for path in Path("out").glob("**/interpret.json")]

    [found] = study("b", data, "moved", f"--root {files} --quick")
    assert "cifar10-4" not in found["stability"]
    shutil.rmtree("out")
    monkeypatch.setenv("AIB_DATA", str(files))
    [found] = study("c", "cifar10", pictures, f"--data {data}")
    assert "cifar10-4" in found["stability"]


def test_every_run_is_studied_on_the_images_that_the_first_one_held_out(tmp_path, capsys):
    run = make_run(tmp_path / "run", data="shapes:count=60", holdout=0.2)
    eval_model(data=shapes(2)).save_pretrained(tmp_path / "saved")
    table = tmp_path / "images.csv"
    words = "--split val --images 6 --seed 1 --precision bf16 --quick --foreign shapes --workers 0"
    shown = ["interpret", str(run), str(tmp_path / "saved"), "--csv", str(table), *words.split()]
    assert main(shown) == 0
    printed = " ".join(capsys.readouterr().out.split())
    for folder in (run, tmp_path / "saved"):
        result = json.loads((folder / "interpret.json").read_text())
        found = [result[key] for key in ("split", "images", "of_images", "seed")]
        assert found == ["val", 6, 12, 1]
        assert any("bf16" in note for note in result["notes"])
        assert f"{folder.name}: {result['reliance']['words']}" in printed
    with table.open() as file:
        chosen = [int(row["index"]) for row in csv.DictReader(file)]
    assert chosen == 2 * sample_indices(12, 6, 1).tolist()


def test_a_foreign_set_that_is_not_here_is_said_and_left_out(run, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("AIB_DATA", str(tmp_path))
    options = ["--images", "4", "--quick", "--out", str(tmp_path / "o")]
    assert main(["interpret", str(run), *options]) == 0
    said = capsys.readouterr().out
    assert "no svhn images" in said and "color-8" in said and "svhn-8" not in said
    assert main(["interpret", str(run), *options, "--json", "--overwrite"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["runs"]["qt"]["images"] == 4 and shown["environment"]["torch"]
    result = json.loads((tmp_path / "o" / "interpret.json").read_text())
    assert len(result["stability"]) == 7 and any("svhn" in note for note in result["notes"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["interpret", "nowhere"], "nowhere is not a run"),
        (["interpret", "{run}", "--images", "1"], "at least 2"),
        (["interpret", "{run}", "{run}"], "named twice"),
        (["interpret", "{run}", "--csv", "photo.jpg"], "end in .csv"),
        (["interpret", "{run}", "--foreign", "letters", "--overwrite"], "letters"),
        (["interpret", "{run}", "--data", "letters"], "letters"),
        (["interpret", "{run}", "--quick", "--images", "4"], "or --overwrite"),
    ],
)
def test_mistakes_are_answered_in_a_sentence(
    words, said, compared, run, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)  # what a wrong option writes goes there
    assert main([word.format(run=run) for word in words]) == 2
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error
