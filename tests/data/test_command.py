"""`aib data`: output and exit codes."""

import json

import numpy as np
import pytest
from PIL import Image

from aib.cli import main
from aib.data import SPECS, load
from aib.data.sheet import contact_sheet
from tests.data import official


@pytest.mark.parametrize("word", ["list", "fetch", "show"])
def test_help_has_an_example(capsys, word):
    assert main(["data", word, "--help"]) == 0
    assert f"aib data {word}" in capsys.readouterr().out.split("example:")[1]


def test_list_shows_what_is_in_the_cache_folder(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("AIB_DATA", str(tmp_path))
    official.write_cifar10(tmp_path)
    assert len(load("cifar10:partial", "test")) == 20
    assert main(["data", "list", "--json"]) == 0
    sets = {row["name"]: row for row in json.loads(capsys.readouterr().out)["sets"]}
    assert set(sets) == {*SPECS, "shapes_spurious"}
    assert sets["cifar10"]["location"].endswith("cifar-10-batches-bin")
    assert sets["stl10"]["location"] is None and sets["shapes"]["location"] == "generated"
    assert main(["data", "list", "--root", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "aib data fetch stl10" in shown and "needs 'aib[datasets]'" in shown


@pytest.mark.parametrize(("split", "count", "holdout"), [("train", 100, 0.0), ("val", 10, 0.1)])
def test_show_shows_the_split_in_columns(split, count, holdout, capsys, tmp_path):
    out, data = tmp_path / "sheet.png", load("shapes:count=100", split, seed=3, holdout=holdout)
    words = ["data", "show", "shapes:count=100", "--split", split, "--columns", "2", "--seed", "3"]
    assert main([*words, "--out", str(out)]) == 0
    assert f"sheet.png: {count} images" in capsys.readouterr().out
    assert np.array_equal(np.asarray(Image.open(out)), np.asarray(contact_sheet(data, 2)))


def test_show_writes_a_new_png(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    official.write_folder(tmp_path / "cats")
    assert main(["data", "show", "folder:cats"]) == 0
    before = (tmp_path / "folder-cats-train.png").read_bytes()
    for words, said in (([], "exists"), (["--out", "mine.jpg"], "end in .png")):
        assert main(["data", "show", "folder:cats", *words]) == 2
        assert said in " ".join(capsys.readouterr().err.split())
    assert (tmp_path / "folder-cats-train.png").read_bytes() == before
    assert not (tmp_path / "mine.jpg").exists()


def test_the_name_of_a_folder_alone_is_an_error_with_the_right_name(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    official.write_folder(tmp_path / "photos")
    for name in ("photos", "photos:image_size=32"):
        assert main(["data", "show", name]) == 2
        assert "folder:photos" in capsys.readouterr().err
