"""The examples run as they are, and do what they say."""

import json
import re
import runpy
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import nn

import aib
from aib.data import load
from aib.files import write_json
from tests.data import hugging_face
from tests.helpers import make_run, photo
from tools.results.collect import collect
from tools.results.pages import pages
from tools.results.read import read_results

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
    assert len(list((tmp_path / "maps").glob("*.png"))) == 1
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
    assert rows["centred blob"][2:] == ["100.0", "0"] and rows["constant"][2:] == ["100.0", "96"]
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_fine_grained_leaves_two_runs_that_can_be_kept(run, tmp_path):
    words = ["--data", "shapes:count=32", "--epochs", "1", "--workers", "0", "--out", "cub"]
    assert "vgg19_aib_qt: error " in run("fine_grained.py", *words)
    with Image.open(tmp_path / "cub" / "maps.png") as picture:
        assert picture.size == (8 * 32, 2 * 32)
    runs = [tmp_path / "cub" / name for name in ("vgg19", "vgg19_aib_qt")]
    kept = collect(runs, "two networks")
    (tmp_path / "results").mkdir()
    write_json(tmp_path / "results" / "cub.json", kept)
    assert [r["model"] for r in kept["runs"]] == ["vgg19", "vgg19_aib_qt"]
    text = pages(read_results(tmp_path / "results"))["shapes.md"]
    assert text.count("`python examples/fine_grained.py --data shapes:count=32 --epochs 1 ") == 2
    assert "`aib train" not in text  # it does not know these networks
    backbone = runpy.run_path(str(EXAMPLES / "fine_grained.py"))["VGG19"](10)
    model = aib.from_pretrained(runs[1], backbone=backbone)
    assert model.explain(torch.rand(1, 3, 32, 32)).attention.shape == (1, 32, 32)


def test_fine_grained_reads_weights_in_the_order_of_the_convolutions(tmp_path):
    vgg19 = runpy.run_path(str(EXAMPLES / "fine_grained.py"))["VGG19"]
    theirs = vgg19(3).features[:-1].state_dict()  # without the BatchNorm, which is new
    renumbered = {f"{i}.{name}": value for i, (name, value) in enumerate(theirs.items())}
    torch.save(renumbered, tmp_path / "weights.pth")
    ours = vgg19(3, tmp_path / "weights.pth").features[:-1].state_dict()
    for name in theirs:  # scaled, so that directions are what can be compared
        directions = [values[name].flatten() / values[name].norm() for values in (ours, theirs)]
        torch.testing.assert_close(*directions)
    assert list(ours["0.weight"].shape) == [3, 3, 1, 1] and len(ours) == 2 * 17
    torch.save(dict(list(renumbered.items())[:-1]), tmp_path / "short.pth")
    with pytest.raises(SystemExit, match="short.pth does not hold"):
        vgg19(3, tmp_path / "short.pth")


def test_fine_grained_balances_the_weights_and_keeps_the_function():
    vgg19 = runpy.run_path(str(EXAMPLES / "fine_grained.py"))["VGG19"]
    torch.manual_seed(0)
    network = vgg19(3).double()
    with torch.no_grad():  # as uneven as the file's: one convolution makes up for another
        network.features[0].weight *= 100
        network.features[0].bias *= 100
        network.features[1].weight /= 100
        for layer in network.features:
            if isinstance(layer, nn.Conv2d):
                layer.bias += 0.1
    network.features[-1].eps = 1e-30
    images = torch.rand(2, 3, 48, 48, dtype=torch.float64)
    before = network(images)
    network.balance()
    torch.testing.assert_close(network(images), before)
    for layer in network.features:
        if isinstance(layer, nn.Conv2d):
            fan_in = layer.in_channels * layer.kernel_size[0] ** 2
            size = layer.weight.square().mean().item()
            assert size == pytest.approx(2 / fan_in)
