"""`aib explain` and `aib interpret`, as a user meets them."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from aib.cli import main
from aib.data import load
from aib.interpret.metrics.perturb import modifications
from aib.interpret.stored import stored_verdict
from aib.runs.run import open_run
from tests.data import official
from tests.helpers import eval_model, make_run, photo, shapes, small_model


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "qt")


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


@pytest.fixture(scope="module")
def compared(run, tmp_path_factory):
    """Three runs compared on the same images, once for all tests below."""
    folder = tmp_path_factory.mktemp("compared")
    other = make_run(folder / "released", "tiny_aib", profile="released")
    plain = make_run(folder / "plain", "tiny")
    words = ["interpret", str(run), str(other), str(plain), "--foreign", "shapes"]
    assert main([*words, "--images", "16", "--subset", "4"]) == 0
    return {"qt": run, "released": other, "plain": plain}


def test_interpret_writes_every_answer_into_the_run(compared):
    result = json.loads((compared["qt"] / "interpret.json").read_text())
    assert result["images"] == 16 and result["subset_images"] == 4
    assert list(result["stability"]) == list(modifications("shapes"))
    assert {"own", "centre", "random"} <= set(result["localisation"])
    assert set(result["faithfulness"]) == set(result["localisation"])
    assert result["verdict"]["name"] == "undecided"
    assert result["verdict"]["reasons"]
    assert set(result["encoding"]["probe"]) == {"map", "mask", "centre"}
    assert set(result["reliance"]["replaced"]) == {"mean", "shuffled", "another"}
    assert result["randomised_layers"] and result["information"]["kl_bits"] > 0
    pictures = compared["qt"] / "figures"
    alone, together = (
        Image.open(pictures / name).height for name in ("modified.png", "modified_compared.png")
    )
    assert together > 1.2 * alone  # a further row of maps below each row of images
    plain = json.loads((compared["plain"] / "interpret.json").read_text())
    assert "own" not in plain["localisation"] and plain["reliance"] is plain["verdict"] is None
    assert "no single" in plain["verdict_text"]
    assert not list(compared["plain"].glob("figures/*"))


def test_a_verdict_says_which_images_it_was_measured_on_and_how_many_the_evaluator_saw(compared):
    folder = compared["qt"]
    study = json.loads((folder / "interpret.json").read_text()) | {"split": "val"}
    judged = {"run": "evaluator", "accuracy": 80.0, "maps": {}}
    for changed, part in (
        ({}, "16 held-out images of shapes"),
        ({"evaluator": judged}, "16 held-out images of shapes, by the evaluator on 4 of them"),
        ({"split": "train"}, "16 images of shapes, split train"),  # or new images of a folder
        ({"weights_sha256": "0"}, "16 held-out images of shapes, with other weights than these"),
    ):
        (folder / "interpret.json").write_text(json.dumps(study | changed))
        found = stored_verdict(open_run(folder, "cpu"))
        assert found.line == f"map: undecided (measured on {part})"


def test_small_images_have_no_larger_blocks_and_are_not_compared_with_others(run, tmp_path, capsys):
    policy = replace(shapes(2).preprocessing, image_size=8)
    folder = make_run(tmp_path / "run", model=small_model("tiny_aib_qt", preprocessing=policy))
    few = ["--images", "4", "--subset", "2", "--foreign", "shapes"]
    assert main(["interpret", str(folder), *few]) == 0
    result = json.loads((folder / "interpret.json").read_text())
    blocks = [name for name in result["stability"] if name.startswith(("color", "shapes"))]
    assert blocks == ["color-4", "color-8", "shapes-4", "shapes-8"]
    assert any("larger than the images of 8 x 8" in note for note in result["notes"])
    assert main(["interpret", str(run), str(folder), "--data", "shapes:count=8"]) == 2
    assert "compare them separately" in capsys.readouterr().err


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

    [found] = study("b", data, "moved", f"--root {files}")
    assert "cifar10-4" not in found["stability"]
    shutil.rmtree("out")
    monkeypatch.setenv("AIB_DATA", str(files))
    [found] = study("c", "cifar10", pictures, f"--data {data}")
    assert "cifar10-4" in found["stability"]


def test_every_run_is_studied_on_the_images_that_the_first_one_held_out(tmp_path, capsys):
    run = make_run(tmp_path / "run", data="shapes:count=60", holdout=0.2)
    eval_model(data=shapes(2)).save_pretrained(tmp_path / "saved")
    words = "--split val --images 6 --seed 1 --precision bf16 --quick --foreign shapes --workers 0"
    shown = ["interpret", str(run), str(tmp_path / "saved"), *words.split()]
    assert main(shown) == 0
    printed = " ".join(capsys.readouterr().out.split())
    for folder in (run, tmp_path / "saved"):
        result = json.loads((folder / "interpret.json").read_text())
        found = [result[key] for key in ("split", "images", "of_images", "seed")]
        assert found == ["val", 6, 12, 1]
        assert any("bf16" in note for note in result["notes"])
        assert f"{folder.name}: {result['verdict_text']}" in printed


def test_a_foreign_set_that_is_not_here_is_said_and_left_out(run, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("AIB_DATA", str(tmp_path))
    options = ["--images", "4", "--subset", "2", "--out", str(tmp_path / "o")]
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
        (["interpret", "{run}", "{run}"], "named twice"),
        (["interpret", "{run}", "--foreign", "letters", "--overwrite"], "letters"),
        (["interpret", "{run}", "--data", "letters"], "letters"),
        (["interpret", "{run}", "--only", "swaps", "guess"], "no measure is named 'guess'"),
        (["interpret", "{run}", "--out", "{run}/config.json"], "cannot be written"),
        (["interpret", "{run}", "--quick", "--images", "4"], "or --overwrite"),
    ],
)
def test_mistakes_are_one_sentence(words, said, compared, run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # what a wrong option writes goes there
    assert main([word.format(run=run) for word in words]) == 2
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error
