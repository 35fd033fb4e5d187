"""`aib data`: output and exit codes."""

import json

import pytest
from PIL import Image

from aib.cli import main
from aib.data import SPECS, load
from tests.data import official


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
    assert "aib data fetch stl10" in capsys.readouterr().out


@pytest.mark.parametrize(("split", "count"), [("train", 100), ("val", 10)])
def test_show_writes_a_new_png_with_the_split(split, count, capsys, tmp_path):
    out = tmp_path / "sheet.png"
    words = f"data show shapes:count=100 --split {split} --out {out}".split()
    assert main(words) == 0
    assert f"sheet.png: {count} images of 10 classes" in capsys.readouterr().out
    with Image.open(out) as sheet:
        assert sheet.size == (110 + 8 * 130, 10 * 66)
    assert main(words) == 2 and "exists" in capsys.readouterr().err


def test_the_name_of_a_folder_alone_is_an_error_with_the_right_name(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    official.write_folder(tmp_path / "photos")
    assert main(["data", "show", "photos:image_size=32"]) == 2
    assert "folder:photos" in capsys.readouterr().err
