"""`aib explain`, as a user meets it."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import aib
from aib.cli import main
from aib.commands.explain import choose_folder, find_images
from aib.errors import AibError
from aib.interpret.posthoc import has_captum
from aib.interpret.results import Study
from aib.models.types import Calibration
from aib.runs.run import open_run
from aib.system.files import sha256
from tests.helpers import eval_model, make_run, photo, shapes


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "qt")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    data = shapes(2)
    for i in range(2):
        image = Image.fromarray(data.images[i].permute(1, 2, 0).numpy())
        image.resize((90, 60)).save(folder / f"photo{i}.jpg")
    return folder


@pytest.fixture
def words(run, photos, tmp_path):
    """One image, one run, a new folder."""
    image = str(photos / "photo0.jpg")
    return ["explain", image, "--run", str(run), "--out", str(tmp_path / "out")]


def test_a_picture_and_a_record_for_each_image(run, photos, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["explain", str(photos), "--run", str(run), "--out", str(out)]) == 0
    said = capsys.readouterr().out
    for name in ("photo0", "photo1"):
        record = json.loads((out / f"{name}.json").read_text())
        assert record["model"] == "tiny_aib_qt" and record["method"] == "own"
        assert record["weights_sha256"] == sha256(run / "model.safetensors")
        assert record["image"] == str(photos / f"{name}.jpg")
        assert record["image_sha256"] == sha256(photos / f"{name}.jpg")
        assert 0 <= record["entropy_bits"] <= record["max_entropy_bits"] == math.log2(10)
        best = [f"{one['class']} {100 * one['probability']:.1f}%" for one in record["top"]]
        assert f"{name}.jpg: {', '.join(best[:3])}" in said and best[3] not in said
        assert np.load(out / f"{name}.npy").shape == tuple(record["map_size"])
    assert "decision: one of the 10 classes that the model knows" in said
    assert f"map: not measured; run `aib interpret {run}`" in said


def test_it_takes_the_samples_and_the_seed(words, run, tmp_path):
    assert main([*words, "--device", "cpu", "--samples", "1x2", "--seed", "7"]) == 0
    found = aib.explain(open_run(run, "cpu").model, words[1], samples=(1, 2), seed=7)
    record = json.loads((tmp_path / "out" / "photo0.json").read_text())
    assert record["probability"] == float(found.probability)
    assert (record["samples"], record["seed"]) == (found.samples, found.seed)


def test_a_folder_with_files_needs_overwrite(words, tmp_path, capsys, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()  # an empty one will do
    assert main(words) == 0
    before = {path: path.read_bytes() for path in out.iterdir()}
    assert main([*words, "--seed", "1"]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in out.iterdir()} == before
    assert main([*words, "--seed", "1", "--overwrite"]) == 0
    assert json.loads((out / "photo0.json").read_text())["seed"] == 1
    monkeypatch.chdir(tmp_path)
    for name in ("explanations", "explanations-2", "explanations-3"):
        assert choose_folder(None, overwrite=False) == Path(name)
        Path(name).mkdir()


def study_of(lost: float) -> dict:
    """A stored study in which another map costs so much accuracy."""
    drop = {"accuracy": 0.9 - lost, "drop": lost, "low": lost - 0.005, "high": lost + 0.005}
    replaced = dict.fromkeys(("mean", "shuffled", "another"), drop)
    reliance = {"images": 1000, "accuracy": 0.9, "replaced": replaced, "harm": 0.01, "chance": 0.1}
    study = Study("tiny_aib_qt", 1000, 90.0, data="shapes", split="test")
    return study.to_dict() | {"reliance": reliance, "verdict": {"name": "stored", "reasons": []}}


def test_it_shows_the_verdict_of_the_model_and_warns(photos, tmp_path, capsys):
    folder = make_run(tmp_path / "run")
    words = ["explain", str(photos / "photo0.jpg"), "--run", str(folder)]
    words += ["--out", str(tmp_path / "out"), "--overwrite"]
    measured = "measured on 1,000 test images of shapes"
    other = ", with other weights than these"
    for name, lost, note in (("decorative", 0.0, other), ("used", 0.3, "")):
        study = study_of(lost)
        if not note:
            study["weights_sha256"] = sha256(folder / "model.safetensors")
        (folder / "interpret.json").write_text(json.dumps(study))
        assert main(words) == 0
        said = capsys.readouterr()
        assert f"map: {name} ({measured}{note})" in said.out
        assert ("warning: The map is decorative" in said.err) == (name == "decorative")
        record = json.loads((tmp_path / "out" / "photo0.json").read_text())
        assert record["verdict"]["name"] == name
        assert record["verdict"]["measured"] == measured + note
    if has_captum():  # the verdict is about the model's own map
        assert main([*words, "--method", "gradcam"]) == 0
        assert "map:" not in capsys.readouterr().out


def test_a_damaged_image_is_named_and_skipped(words, tmp_path, capsys):
    bad = tmp_path / "bad" / "bad.png"
    bad.parent.mkdir()
    bad.write_bytes(b"no image")
    first, *rest = [*words[1:], "--overwrite"]
    assert main(["explain", first, str(bad.parent), *rest]) == 0  # found in a folder
    assert "bad.png" in capsys.readouterr().err
    assert main(["explain", first, str(bad), *rest]) == 2
    said = capsys.readouterr()
    assert "photo0.jpg: " in said.out
    assert f"1 named file(s) could not be explained: {bad}" in said.err
    assert main(["explain", str(bad), str(tmp_path / "none.png"), *rest]) == 2
    assert "none of the 2" in capsys.readouterr().err


def test_masks_and_hidden_files_of_a_folder_are_not_explained(photos, tmp_path):
    for name in ("cat/0.jpg", "masks/cat/0.jpg", "test/dog/0.jpg", ".hidden.jpg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(photos / "photo0.jpg", tmp_path / name)
    expected = [tmp_path / "cat/0.jpg", tmp_path / "test/dog/0.jpg"]
    assert find_images([tmp_path]) == find_images([tmp_path, *expected]) == expected
    assert find_images([tmp_path / "masks"]) == [tmp_path / "masks/cat/0.jpg"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(AibError, match="at least one image file"):
        find_images([tmp_path / "empty"])


def test_a_model_without_maps_asks_for_a_method_and_takes_one(photos, tmp_path, capsys):
    plain = make_run(tmp_path / "plain", "tiny")
    options = [str(photos / "photo0.jpg"), "--run", str(plain), "--out", str(tmp_path / "o")]
    assert main(["explain", *options]) == 2
    assert "--method gradcam" in capsys.readouterr().err
    pytest.importorskip("captum")
    assert main(["explain", *options, "--method", "gradcam", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["explanations"][0]["gradcam_layer"].startswith("tail")


def test_probabilities_are_calibrated_where_the_model_has_a_calibration(monkeypatch):
    """By hand: the temperature sharpens 10 classes, and the threshold decides what is unsure."""
    model, image = eval_model(data=shapes(2)), photo()
    plain = aib.explain(model, image)
    for threshold, unsure in ((0.0, False), (0.999, True)):
        monkeypatch.setattr(model, "calibration", Calibration(0.5, threshold))
        found = aib.explain(model, image)
        squared = plain.probabilities.double() ** 2
        expected = (squared / squared.sum()).float()
        np.testing.assert_allclose(found.probabilities, expected, rtol=1e-5)
        assert found.unsure.tolist() == [unsure]
