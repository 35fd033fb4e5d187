"""`aib explain` and `aib interpret`, as a user meets them."""

import csv
import json
import math
import shutil
from pathlib import Path

import pytest
from PIL import Image

from aib import runs as packaged
from aib.cli import main
from aib.files import sha256
from aib.interpret.posthoc import has_captum
from aib.interpret.results import Information, Study
from tests.helpers import eval_model, make_run, shapes


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


def test_explain_writes_a_picture_and_a_record_for_each_image(run, photos, tmp_path, capsys):
    assert main(["explain", str(photos), "--run", str(run), "--out", str(tmp_path)]) == 0
    for i in range(2):
        with Image.open(tmp_path / f"photo{i}.png") as picture:
            assert picture.width > picture.height > 100
        record = json.loads((tmp_path / f"photo{i}.json").read_text())
        assert record["model"] == "tiny_aib_qt" and record["method"] == "own"
        assert record["weights_sha256"] == sha256(run / "model.safetensors")
        assert record["image_sha256"] == sha256(photos / f"photo{i}.jpg")
        assert record["samples"] == "4x12" and record["seed"] == 0
        assert record["top"][0] == {
            "class": record["prediction"],
            "probability": record["probability"],
        }
        assert 0 <= record["entropy_bits"] <= record["max_entropy_bits"] == math.log2(10)
        assert record["unsure"] == (record["entropy_bits"] > math.log2(10) / 2)
        assert record["environment"]["torch"] and record["preprocessing"]["image_size"] == 32
    out = capsys.readouterr().out
    assert "photo1.jpg" in out
    assert "decision: one of the 10 classes that the model knows" in out
    assert f"entropy {record['entropy_bits']:.2f} of 3.32 bits" in out
    assert ("unsure, it may show none of the classes" in out.splitlines()[1]) == record["unsure"]


def test_an_image_is_explained_alike_alone_and_among_others(run, photos, tmp_path):
    one, all_ = tmp_path / "one", tmp_path / "all"
    assert main(["explain", str(photos / "photo1.jpg"), "--run", str(run), "--out", str(one)]) == 0
    assert main(["explain", str(photos), "--run", str(run), "--out", str(all_)]) == 0
    records = [json.loads((d / "photo1.json").read_text()) for d in (one, all_)]
    assert records[0]["top"] == records[1]["top"]


def study_of(name: str) -> dict:
    """A stored study that supports the verdict."""
    lost = {"decorative": 0.0, "used": 0.3}[name]
    drop = {"accuracy": 0.9 - lost, "drop": lost, "low": lost - 0.005, "high": lost + 0.005}
    replaced = dict.fromkeys(("mean", "shuffled", "another"), drop)
    reliance = {"images": 1000, "accuracy": 0.9, "replaced": replaced, "harm": 0.01, "chance": 0.1}
    study = Study("tiny_aib_qt", 1000, 90.0, {}, "not measured", Information(), data="shapes")
    return study.to_dict() | {"split": "test", "reliance": reliance | {"verdict": name}}


@pytest.mark.parametrize(("name", "warns"), [("decorative", True), ("used", False)])
def test_explain_shows_the_verdict_of_the_model_and_warns(name, warns, photos, tmp_path, capsys):
    folder = make_run(tmp_path / "run")
    command = ["explain", str(photos / "photo0.jpg"), "--run", str(folder), "--out"]
    assert main([*command, str(tmp_path / "before")]) == 0
    assert "map:" not in capsys.readouterr().out
    (folder / "interpret.json").write_text(json.dumps(study_of(name)))
    assert main([*command, str(tmp_path / "out")]) == 0
    said = capsys.readouterr()
    measured = "measured on 1,000 test images of shapes, with other weights than these"
    assert f"map: {name} ({measured})" in said.out
    assert ("warning: The map is decorative" in said.err) == warns
    record = json.loads((tmp_path / "out" / "photo0.json").read_text())
    assert record["verdict"]["name"] == name and record["verdict"]["measured"] == measured
    found = study_of(name) | {"weights_sha256": sha256(folder / "model.safetensors")}
    (folder / "interpret.json").write_text(json.dumps(found))
    assert main([*command, str(tmp_path / "json"), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["verdict"]["measured"] == "measured on 1,000 test images of shapes"
    if has_captum():  # the verdict is about the model's own map
        assert main([*command, str(tmp_path / "cam"), "--method", "gradcam"]) == 0
        assert "map:" not in capsys.readouterr().out


def test_a_damaged_study_is_named(photos, tmp_path, capsys):
    folder = make_run(tmp_path / "run")
    broken = study_of("used")
    broken["reliance"]["replaced"]["another"] = 7
    for content in ("{}", json.dumps(broken)):
        (folder / "interpret.json").write_text(content)
        command = ["explain", str(photos / "photo0.jpg"), "--run", str(folder)]
        assert main([*command, "--out", str(tmp_path)]) == 2
        assert "interpret.json holds no study" in capsys.readouterr().err


def test_a_damaged_image_is_named_and_skipped(run, photos, tmp_path, capsys):
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"no image")
    good = photos / "photo0.jpg"
    out = ["--run", str(run), "--out", str(tmp_path / "out")]
    assert main(["explain", str(bad), str(good), *out]) == 0
    assert "bad.png" in capsys.readouterr().err
    assert main(["explain", str(bad), str(tmp_path / "none.png"), *out]) == 2
    said = capsys.readouterr().err
    assert "none.png does not exist" in said and "none of the 2" in said


def test_two_images_of_one_name_get_two_pictures(run, photos, tmp_path):
    (tmp_path / "other").mkdir()
    shutil.copy(photos / "photo0.jpg", tmp_path / "other" / "photo0.jpg")
    again, out = tmp_path / "other", tmp_path / "out"
    first = str(photos / "photo0.jpg")
    assert main(["explain", first, str(again), "--run", str(run), "--out", str(out)]) == 0
    assert sorted(p.name for p in out.glob("*.npy")) == ["photo0-2.npy", "photo0.npy"]


@pytest.mark.parametrize(
    "theirs", ["dog.png", "dog.json", "dog.mask.png", "explanations.csv", "manifest.json"]
)
@pytest.mark.parametrize("inside", [False, True])
def test_a_file_that_explain_did_not_write_is_never_overwritten(
    run, photos, tmp_path, monkeypatch, capsys, theirs, inside
):
    """Whether it is the image to explain, or one beside it; whether `--out` is `a` or `.`."""
    folder = tmp_path / "a"
    folder.mkdir()
    with Image.open(photos / "photo0.jpg") as image:
        for name in ("dog.jpg", *([theirs] if theirs.endswith(".png") else [])):
            image.save(folder / name)
    if not theirs.endswith(".png"):
        (folder / theirs).write_text('{"breed": "spaniel", "picture": "dog.png"}')
    before = {path: path.read_bytes() for path in folder.iterdir()}
    monkeypatch.chdir(folder if inside else tmp_path)
    base = Path("." if inside else "a")
    for named in {"dog.jpg", theirs if theirs == "dog.png" else "dog.jpg"}:
        assert main(["explain", str(base / named), "--run", str(run), "--out", str(base)]) == 2
        assert f"{base / theirs} would be overwritten" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_explaining_a_folder_again_explains_the_same_images(
    run, photos, tmp_path, monkeypatch, capsys
):
    """Its own pictures are inside, beside the images and under another name; they are skipped."""
    shutil.copy(photos / "photo0.jpg", tmp_path / "dog.jpg")
    monkeypatch.chdir(tmp_path)
    words = ["explain", ".", "--run", str(run), "--json"]
    for out, skipped in ((".", 0), ("explanations", 2), (".", 4), ("explanations", 4)):
        assert main([*words, "--out", out]) == 0
        shown = capsys.readouterr()
        assert [e["image"] for e in json.loads(shown.out)["explanations"]] == ["dog.jpg"]
        assert (f"skipped: {skipped} figure(s) drawn by aib" in shown.err) == (skipped > 0)
    (tmp_path / "dog.png").rename(tmp_path / "moved.png")
    assert main(["explain", "moved.png", "--run", str(run)]) == 2
    assert "skipped: 1 figure" in capsys.readouterr().err


def test_a_model_without_maps_asks_for_a_method_and_takes_one(photos, tmp_path, capsys):
    plain = make_run(tmp_path / "plain", "tiny")
    options = [str(photos / "photo0.jpg"), "--run", str(plain), "--out", str(tmp_path / "o")]
    assert main(["explain", *options]) == 2
    assert "--method gradcam" in capsys.readouterr().err
    pytest.importorskip("captum")
    assert main(["explain", *options, "--method", "gradcam", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["explanations"][0]["gradcam_layer"].startswith("tail")


def test_without_a_packaged_model_one_sentence_says_what_to_do(
    photos, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(packaged, "PACKAGED", tmp_path / "models")
    assert main(["explain", str(photos)]) == 2
    assert "no pretrained model" in capsys.readouterr().err
    # and a folder is all it takes to have one
    eval_model("tiny_aib_qt", shapes(2)).save_pretrained(tmp_path / "models" / "small")
    assert main(["explain", str(photos), "--out", str(tmp_path / "o")]) == 0
    options = ["--run", "small", "--out", str(tmp_path / "p")]
    assert main(["explain", str(photos), *options]) == 0


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
    assert list(result["stability"]) == [
        *(f"color-{p}" for p in (4, 8, 12, 16)),
        *(f"shapes-{p}" for p in (4, 8, 12, 16)),
        "high-4",
        "high>4",
        "low-12",
    ]
    assert {"own", "centre", "random"} <= set(result["localisation"])
    assert set(result["faithfulness"]) == set(result["localisation"])
    assert result["verdict"]["name"] == result["reliance"]["verdict"] == "undecided"
    assert result["verdict"]["reasons"]
    assert set(result["encoding"]["probe"]) == {"map", "mask", "centre"}
    assert set(result["reliance"]["replaced"]) == {"mean", "shuffled", "another"}
    assert result["randomised_layers"] and result["information"]["kl_bits"] > 0
    assert (compared[0]["qt"] / "figures" / "modified.png").stat().st_size > 1000


def test_where_two_runs_disagree_a_picture_shows_both_maps(compared):
    """As often as one is wrong where the other is right; a run without maps has no part in it."""
    with compared[1].open() as file:
        rows = list(csv.DictReader(file))
    right = {
        name: [float(row["correct"]) == 1 for row in rows if row["run"] == name]
        for name in compared[0]
    }
    for wrong, other in (("qt", "released"), ("released", "qt")):
        differs = any(b and not a for a, b in zip(right[wrong], right[other], strict=True))
        path = compared[0][wrong] / "figures" / f"wrong_{wrong}_right_{other}.png"
        assert path.is_file() == differs
    assert not list(compared[0]["plain"].glob("figures/wrong_*"))


def test_runs_of_one_folder_name_get_a_picture_each(tmp_path):
    """One always says class 0 and two always class 1, so the first is wrong on its class alone."""
    folders = []
    for name, answer in (("a", 0), ("b", 1), ("c", 1)):
        model = eval_model(data=shapes(2))
        model.head.decode[-1].bias.data[answer] = 1e6
        folders.append(make_run(tmp_path / name / "run", model=model))
    words = ["interpret", *map(str, folders), "--images", "60", "--quick", "--foreign", "shapes"]
    assert main(words) == 0
    pictures = [len(list(folder.glob("figures/wrong_*.png"))) for folder in folders]
    assert pictures == [2, 1, 1]


def test_a_run_without_maps_has_accuracy_and_a_sentence(compared):
    result = json.loads((compared[0]["plain"] / "interpret.json").read_text())
    with compared[1].open() as file:
        right = [row["correct"] for row in csv.DictReader(file) if row["run"] == "plain"]
    assert result["accuracy"] == pytest.approx(100 * sum(map(float, right)) / 16)
    assert "own" not in result["localisation"]
    assert result["reliance"]["verdict"] is None and "no single" in result["reliance"]["words"]


def test_the_table_of_images_has_a_row_an_image_and_run(compared):
    with compared[1].open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 16
    places = {name: [r["index"] for r in rows if r["run"] == name] for name in compared[0]}
    assert places["qt"] == places["released"] == places["plain"]
    assert all(row["color-8_cosine"] for row in rows if row["run"] == "qt")
    assert not any(row["color-8_cosine"] for row in rows if row["run"] == "plain")


def test_a_foreign_set_that_is_not_here_is_said_and_left_out(run, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("AIB_DATA", str(tmp_path))
    options = ["--images", "4", "--quick", "--out", str(tmp_path / "o")]
    assert main(["interpret", str(run), *options]) == 0
    said = capsys.readouterr().out
    assert "no svhn images" in said and "color-8" in said and "svhn-8" not in said
    result = json.loads((tmp_path / "o" / "interpret.json").read_text())
    assert len(result["stability"]) == 7 and any("svhn" in note for note in result["notes"])


def test_json_of_interpret_is_json(run, tmp_path, capsys):
    options = ["--foreign", "shapes", "--images", "4", "--quick", "--out", str(tmp_path)]
    assert main(["interpret", str(run), *options, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["runs"]["qt"]["images"] == 4 and shown["environment"]["torch"]


def test_the_spurious_shapes_show_mass_on_the_background(run, tmp_path, capsys):
    pytest.importorskip("captum")
    plain = make_run(tmp_path / "plain", "tiny")
    options = ["--data", "shapes_spurious", "--foreign", "shapes", "--images", "6"]
    options += ["--subset", "3", "--out", str(tmp_path / "o")]
    assert main(["interpret", str(run), str(plain), *options]) == 0
    assert "mass on background" in capsys.readouterr().out.replace("\n", " ")
    found = json.loads((tmp_path / "o" / "plain" / "interpret.json").read_text())
    assert found["data"] == "shapes_spurious" and "energy" in found["localisation"]["gradcam"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["interpret", "nowhere"], "nowhere is not a run"),
        (["interpret", "{run}", "--images", "1"], "at least 2"),
        (["interpret", "{run}", "{run}"], "named twice"),
        (["interpret", "{run}", "--foreign", "letters"], "letters"),
        (["interpret", "{run}", "--data", "letters"], "letters"),
        (["explain", "x.png", "--run", "nowhere"], "nowhere"),
        (["report", "nowhere"], "nowhere is not a run"),
    ],
)
def test_mistakes_are_answered_in_a_sentence(words, said, run, capsys):
    assert main([word.format(run=run) for word in words]) == 2
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error


@pytest.mark.parametrize("command", ["explain", "interpret", "report"])
def test_help_shows_an_example(command, capsys):
    assert main([command, "--help"]) == 0
    assert f"aib {command} " in capsys.readouterr().out.replace("│", "")
