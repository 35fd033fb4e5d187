"""The examples run as they are, and do what they say."""

import json
import re
import runpy
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image

import aib
from aib.data import load
from tests.data import hugging_face
from tests.helpers import make_run, photo

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """Run an example as `python examples/NAME.py WORDS` would, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run_example(name: str, *words: str) -> str:
        monkeypatch.setattr(sys, "argv", [str(EXAMPLES / name), *words])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run_example


def test_there_is_a_test_for_every_example():
    tests = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    names = [path.stem for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb")]
    assert [name for name in names if not any(t.startswith(name) for t in tests)] == []


def code_cells(name: str) -> list[dict]:
    cells = json.loads((EXAMPLES / name).read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def test_trusted_map_has_no_outputs():
    cells = code_cells("trusted_map.ipynb")
    assert cells and all(c["outputs"] == [] and c["execution_count"] is None for c in cells)


@pytest.mark.slow
def test_trusted_map_runs_to_a_verdict(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for cell in code_cells("trusted_map.ipynb"):
        exec("".join(cell["source"]), names)
    # How well it was taught is not a test's business; a verdict there is in any case.
    assert f"{names['results'].verdict.name}\n" in capsys.readouterr().out
    assert names["results"].evaluator is not None and names["results"].localisation["own"]
    assert {path.name for path in (tmp_path / "maps").glob("*.png")} == {"0.png", "0.mask.png"}
    assert aib.from_pretrained("my_model").preprocessing.class_names == ("disc", "plus", "square")


@pytest.mark.slow
def test_plug_in_learns(run, tmp_path):
    out = run("plug_in.py")
    # About 40 after 300 steps, and 90 by chance: no rounding makes that difference.
    assert int(re.search(r"test error (\d+)%", out)[1]) < 75
    assert "the same maps? True" in out
    assert "(4, 10) from 2 x 3 samples" in out
    assert not list(tmp_path.iterdir())


def test_hugging_face(run, tmp_path, monkeypatch):
    features = {"image": hugging_face.Image(), "label": hugging_face.ClassLabel(["cat", "dog"])}
    columns = {"image": [photo(20, 20, seed=i) for i in range(8)], "label": [0, 1] * 4}
    splits = dict.fromkeys(("train", "test"), hugging_face.Dataset(columns, features))
    monkeypatch.setitem(sys.modules, "datasets", hugging_face.package({("pets", None): splits}))
    words = ["pets", "--epochs", "1", "--batch-size", "4", "--size", "16", "--out", "saved"]
    assert "test error" in run("hugging_face.py", *words)
    assert aib.from_pretrained(tmp_path / "saved").preprocessing.class_names == ("cat", "dog")
    assert (tmp_path / "saved" / "maps" / "image.png").stat().st_size > 1000


def test_explain_pictures_alone_leaves_nothing_behind(run, tmp_path):
    out = run("explain_pictures.py")
    assert "3 maps written" in out
    # How well it was taught in those seconds is not a test's business.
    names = "|".join(load("shapes_spurious:count=480", "train", holdout=0).class_names)
    line = rf"(?:{names})-[012]\.png: (?:{names}) \d+%, map from 0\.\d\d to [01]\.\d\d"
    assert len(re.findall(line, out)) == 3
    assert not list(tmp_path.iterdir())


def test_explain_pictures_takes_pictures_and_a_run(run, tmp_path):
    make_run(tmp_path / "run")
    Image.new("RGB", (70, 50), "orange").save(tmp_path / "cat.jpg")
    assert "cat.jpg: " in run("explain_pictures.py", "cat.jpg", "--run", "run", "--out", "maps")
    with Image.open(tmp_path / "maps" / "cat-map.png") as picture:
        assert picture.size == (70, 50)
    assert (tmp_path / "maps" / "cat-figure.png").stat().st_size > 1000


def test_score_foreign_method(run, tmp_path):
    out = run("score_foreign_method.py")
    rows = {line[:21].strip(): line[21:].split() for line in out.splitlines()[2:-1]}
    auroc = {name: float(row[0]) for name, row in rows.items()}
    assert auroc["occlusion"] > 0.8 and auroc["input gradient"] > 0.8  # they find the block
    assert auroc["constant"] == 0.5 and 0.4 < auroc["random"] < 0.6
    # The warning of the last line: what knows nothing of the image has the best score.
    assert rows["centred blob"][2:] == ["100.0", "0"] and rows["constant"][2:] == ["100.0", "32"]
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_fine_grained_trains_both_networks_and_shows_what_the_masked_one_saw(
    run, tmp_path, monkeypatch
):
    loaded = []

    def load_backbone(model, path):  # VGG-16 itself takes minutes here
        loaded.append((model.recipe["name"], path))
        model.pretrained_names = frozenset(n for n, _ in model.named_parameters() if ".0." in n)
        return f"{path} loaded"

    monkeypatch.setitem(aib.__dict__, "load_backbone", load_backbone)
    words = ["--data", "shapes:count=64", "--epochs", "1", "--workers", "0", "--width", "0.0625"]
    out = run("fine_grained.py", *words, "--weights", "vgg16.pth", "--out", "both")
    assert loaded == [(name, Path("vgg16.pth")) for name in ("vgg", "vgg_aib_masked")]
    assert re.search(r"vgg: error \d+\.\d\d% .*vgg_aib_masked: error \d", out, re.DOTALL)
    assert out.count(" of 3.32 bits") == 4
    pictures = list((tmp_path / "both" / "maps").glob("test*.png"))
    assert sum(path.suffixes == [".png"] for path in pictures) == 4
    assert sum(path.suffixes == [".mask", ".png"] for path in pictures) == 4
    model = aib.from_pretrained(tmp_path / "both" / "vgg_aib_masked")
    assert model.explain(torch.rand(1, 3, 32, 32)).seen.shape == (1, 3, 32, 32)
