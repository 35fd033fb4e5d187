"""`aib explain` as evidence: box and mask, an expected class, the table and the manifest."""

import csv
import json

import numpy as np
import pytest
import torch
from PIL import Image

import aib
from aib.cli import main
from aib.interpret.maps import make_maps
from aib.models.explanation import Explanation
from aib.system.files import sha256
from tests.helpers import eval_model, make_run, photo, shapes
from tests.interpret.planted import FromRed

NAMES = shapes(2).preprocessing.class_names


def red_model(resize="squash", gain=0.5, offset=0.5):
    """A masked model that opens what is red."""
    model = eval_model("tiny_aib_masked")
    model.preprocessing = aib.Preprocessing(32, resize, class_names=NAMES)
    model.propose = FromRed(gain, offset, stride=2)
    return model


def two_squares(width=150, height=90):
    """Black, with a small and a large red rectangle."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[10:25, 40:50, 0] = 255
    pixels[50:80, 65:105, 0] = 255
    return Image.fromarray(pixels)


@pytest.mark.parametrize(("resize", "left"), [("squash", 0), ("crop", 30)])
@pytest.mark.parametrize("threshold", [0.0, 0.5, 0.9])
def test_mask_and_box_are_where_the_map_exceeds_the_threshold(resize, left, threshold, tmp_path):
    """In the picture's own pixels; those that a crop cuts off are outside."""
    found = aib.explain(red_model(resize), two_squares(), threshold=threshold, deterministic=True)
    found.save(tmp_path)
    map, record = np.load(tmp_path / "image.npy"), json.loads((tmp_path / "image.json").read_text())
    with Image.open(tmp_path / "image.mask.png") as image:
        mask = np.asarray(image)
    width = 150 - 2 * left
    for y in range(90):
        for x in range(150):
            inside = left <= x < 150 - left
            row, column = int((y + 0.5) * 32 / 90), int((x - left + 0.5) * 32 / width)
            value = map[row, column] if inside else 0  # of the input pixel that its centre lies in
            assert mask[y, x] == 255 * (value > threshold)
    ys, xs = mask[40:].nonzero()  # the large rectangle is below
    box = [xs.min(), 40 + ys.min(), xs.max() + 1, 41 + ys.max()]
    assert record["box"] == box and record["threshold"] == threshold
    assert np.abs(np.subtract(box, (65, 50, 105, 80))).max() < 19  # two positions of the map
    assert record["image_size"] == [150, 90] and record["seen_part"] == [left, 0, 150 - left, 90]
    panels = found.panels()
    assert [panel.box for panel in panels] == [tuple(box), None, tuple(box), None]
    assert found.regions[0].part == (left, 0, 150 - left, 90)


def test_a_map_without_a_mask_is_cut_on_its_own_range():
    found = aib.explain(eval_model(data=shapes(2)), photo(32, 32), threshold=0.25)
    map = found.attention[0]
    scaled = (map - map.min()) / (map.max() - map.min())
    assert np.array_equal(found.regions[0].mask, scaled > 0.25)
    assert 0 < found.regions[0].mask.mean() < 1


def test_a_closed_map_has_no_box(tmp_path):
    found = aib.explain(red_model(gain=0, offset=0), photo(), threshold=0.0)
    assert found.record()["box"] is None and not found.regions[0].mask.any()
    found.save(tmp_path)


@pytest.mark.parametrize("method", ["own", "saliency"])
def test_an_expected_class_is_compared_with_the_predicted_one(method, tmp_path):
    pytest.importorskip("captum")
    model, image = eval_model(data=shapes(2)), photo(32, 32)
    expected = int(aib.explain(model, image, deterministic=True).probabilities.argmin())
    found = aib.explain(model, image, method=method, deterministic=True, expected=NAMES[expected])
    x = model.preprocessing.normalise(torch.from_numpy(np.array(image)).permute(2, 0, 1)[None])
    used = "gradcam" if method == "own" else method
    for i, label in enumerate((int(found.prediction), expected)):
        torch.testing.assert_close(
            found.class_maps[:, i], make_maps(model, x, used, torch.tensor([label]))
        )
    record = found.record()
    assert record["expected"] == NAMES[expected] and record["class_method"] == used
    assert record["expected_probability"] == float(found.probabilities[0, expected])
    titles = [panel.title for panel in found.panels()]
    for role, label in (("predicted", int(found.prediction)), ("expected", expected)):
        percent = f"{100 * float(found.probabilities[0, label]):.1f}%"
        assert f"{used} map\n{role}: {NAMES[label]}  {percent}" in titles
    found.save(tmp_path)
    assert np.array_equal(np.load(tmp_path / "image.classes.npy"), found.class_maps[0])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "qt")


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for i, name in enumerate(("a", "a.mask", "manifest")):
        photo(60, 40, seed=i).save(folder / f"{name}.jpg")
    (folder / "broken.png").write_bytes(b"no image")
    return folder


def test_an_unknown_expected_class_is_named_with_a_suggestion(run, pictures, tmp_path, capsys):
    words = ["explain", str(pictures), "--run", str(run), "--out", str(tmp_path / "out")]
    assert main([*words, "--expected", NAMES[0] + "s"]) == 2
    said = capsys.readouterr().err
    assert f"the model has no class '{NAMES[0]}s'; did you mean {NAMES[0]}" in said
    assert not (tmp_path / "out").exists()
    assert main([*words, "--threshold", "1.5"]) == 2
    assert "threshold must be a number" in capsys.readouterr().err


def test_a_folder_gives_one_table_and_a_manifest_of_every_file(run, pictures, tmp_path, capsys):
    pytest.importorskip("captum")
    before = {path: path.read_bytes() for path in pictures.iterdir()}
    out = tmp_path / "out"
    words = ["explain", str(pictures), "--run", str(run), "--out", str(out)]
    assert main([*words, "--expected", NAMES[3], "--threshold", "0.25"]) == 0
    said = capsys.readouterr()
    assert "broken.png is not an image" in said.err
    assert {path: path.read_bytes() for path in pictures.iterdir()} == before
    manifest = json.loads((out / "manifest.json").read_text())
    written = {path.name: sha256(path) for path in out.iterdir() if path.name != "manifest.json"}
    assert manifest["files"] == written and len(written) == 3 * 5 + 1
    assert manifest["weights_sha256"] == sha256(run / "model.safetensors")
    assert manifest["run"] == str(run) and manifest["environment"]["torch"]
    assert manifest["options"]["threshold"] == 0.25 and manifest["options"]["expected"] == NAMES[3]
    [(name, why)] = manifest["skipped"].items()
    assert name.endswith("broken.png") and "is not an image" in why
    with (out / "explanations.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["image"] for row in rows] == list(manifest["images"])
    for row in rows:
        record = json.loads((out / row["map"]).with_suffix(".json").read_text())
        assert np.load(out / row["map"]).ndim == 2
        assert f"expected: {NAMES[3]} {100 * record['expected_probability']:.1f}%" in said.out
        assert sha256(pictures / row["image"]) == record["image_sha256"]
        for key in ("probability", "expected_probability", "threshold"):
            assert float(row[key]) == record[key]
        assert [int(row[side]) for side in ("left", "top", "right", "bottom")] == record["box"]
        assert (row["prediction"], row["expected"]) == (record["prediction"], NAMES[3])
        assert 0 < float(row["entropy_bits"]) <= np.log2(10) + 1e-6


def test_an_empty_mask_leaves_the_cells_of_the_box_empty(tmp_path):
    folder = make_run(tmp_path / "run", model=eval_model("tiny_aib_masked", shapes(2)))
    photo().save(tmp_path / "a.png")
    words = ["explain", str(tmp_path / "a.png"), "--run", str(folder), "--threshold", "0.999"]
    assert main([*words, "--out", str(tmp_path / "out")]) == 0
    with (tmp_path / "out" / "explanations.csv").open(newline="") as file:
        [row] = csv.DictReader(file)
    assert [row[side] for side in ("left", "top", "right", "bottom")] == [""] * 4


def test_an_interrupted_output_has_no_manifest_and_can_be_finished(
    run, pictures, tmp_path, monkeypatch
):
    pytest.importorskip("captum")
    out = tmp_path / "out"
    words = ["explain", str(pictures), "--run", str(run), "--out", str(out), "--deterministic"]
    assert main([*words, "--expected", NAMES[3]]) == 0
    complete = {path.name for path in out.iterdir()}
    assert "manifest.json" in complete
    save = Explanation.save

    def stopped(self, folder, names, **options):
        if names != ["a"]:
            raise aib.AibError("the disk is full")
        return save(self, folder, names, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Explanation, "save", stopped)
        assert main(words) == 2
    without = complete - {"a.classes.npy"}  # no class is expected any more
    assert {path.name for path in out.iterdir()} == without - {"manifest.json"}
    for options in (["--expected", NAMES[3]], [], ["--expected", NAMES[3]]):
        assert main([*words, *options]) == 0
        manifest = json.loads((out / "manifest.json").read_text())
        assert set(manifest["files"]) == {path.name for path in out.iterdir()} - {"manifest.json"}
        assert ("a.classes.npy" in manifest["files"]) == bool(options)


def test_two_at_once_do_not_mix_their_files(run, pictures, tmp_path, monkeypatch, capsys):
    """The manifest of one would list files of the other."""
    out = tmp_path / "out"
    words = ["explain", str(pictures), "--run", str(run), "--out", str(out)]
    save, codes = Explanation.save, []

    def with_another(self, *args, **options):
        with monkeypatch.context() as patch:
            patch.setattr(Explanation, "save", save)
            codes.append(main([*words, "--seed", "1"]))
        return save(self, *args, **options)

    monkeypatch.setattr(Explanation, "save", with_another)
    assert main(words) == 0
    assert set(codes) == {2} and "another `aib explain` is writing" in capsys.readouterr().err
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["options"]["seed"] == 0
    assert manifest["files"].keys() == {path.name for path in out.iterdir()} - {"manifest.json"}
