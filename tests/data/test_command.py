"""`aib data`: output and exit codes."""

import json
from dataclasses import replace

import numpy as np
import pooch
import pytest
import torch
from aib.data.verify import describe, verify
from PIL import Image

from aib.cli import main
from aib.data import SPECS, ImageSet, load, svhn
from aib.data import verify as verifying
from aib.data.sheet import LABEL_WIDTH, contact_sheet
from tests.data import official
from tests.helpers import photo


@pytest.mark.parametrize("word", ["list", "fetch", "verify", "show"])
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


def test_verify_lists_the_differences_and_exits_with_2(capsys, tmp_path):
    official.write_cifar10(tmp_path)
    assert main(["data", "verify", "cifar10", "--root", str(tmp_path), "--json"]) == 2
    report = json.loads(capsys.readouterr().out)
    text = " ".join(report["differences"])
    for part in ("100 images, officially 50,000", "data_batch_1.bin: checksum", "mean"):
        assert part in text
    assert report["splits"]["train"]["images_per_class"] == [10, 10]


def test_verify_finds_each_difference_and_no_other(tmp_path, monkeypatch):
    """First of a tiny CIFAR-10 that counts as the official one, then of the same changed."""
    images, _ = official.write_cifar10(tmp_path)
    folder = tmp_path / "cifar-10-batches-bin"
    known = {
        "sizes": {"train": 100, "test": 20},
        "mean": images.mean((0, 2, 3)) / 255,
        "std": images.std((0, 2, 3)) / 255,
        "checksums": {path.name: pooch.file_hash(path, "md5") for path in folder.iterdir()},
    }
    monkeypatch.setitem(SPECS, "cifar10", replace(SPECS["cifar10"], **known))
    report = verify("cifar10:image_size=16,holdout=0.2", tmp_path)
    assert report.differences == [] and set(report.checksums.values()) == {"official"}
    rows = np.fromfile(folder / "data_batch_1.bin", np.uint8).reshape(-1, 3073)
    rows[:, 1:1025] //= 2  # red
    rows.tofile(folder / "data_batch_1.bin")
    rows = np.vstack([rows, rows[-1:]])
    rows[:, 0] = np.sort(rows[:, 0]).clip(max=8)  # sorted, and none of the last class
    rows.tofile(folder / "test_batch.bin")
    report = verify("cifar10", tmp_path)
    found = [difference.split(" [")[0].split(" 0")[0] for difference in report.differences]
    assert sorted(found[:-2]) == [
        "test: 21 images, officially 20",
        "test: images are sorted by class, officially mixed",
        "test: images of 9 of the 10 classes",
        "train: channel mean",
        "train: channel std",
    ]
    assert report.splits["test"]["images_per_class"] == [2, 5]
    differing = {file for file, result in report.checksums.items() if result == "differs"}
    assert differing == {"data_batch_1.bin", "test_batch.bin"}


@pytest.mark.parametrize("off", [1e-4, 3e-4])
def test_verify_reports_other_mat_files_and_does_not_refuse_them(
    capsys, tmp_path, monkeypatch, off
):
    """Digits with the official counts and, to 1e-4, statistics, but not the official bytes."""
    official.write_svhn(tmp_path)
    assert "extra" in verify("svhn", tmp_path).splits
    (tmp_path / "svhn/extra_32x32.mat").unlink()  # few need it
    assert not any("extra" in text for text in verify("svhn", tmp_path).differences)
    facts = describe(load("svhn:partial", "train", root=tmp_path, holdout=0))
    mean = tuple(round(value + off, 4) for value in facts["mean"])
    known = {"sizes": {"train": 40, "test": 40}, "mean": mean, "std": tuple(facts["std"])}
    spec = replace(SPECS["svhn"], **known)
    monkeypatch.setitem(SPECS, "svhn", spec)
    monkeypatch.setattr(svhn, "SVHN", spec)
    assert main(["data", "verify", "svhn", "--root", str(tmp_path)]) == (0 if off < 2e-4 else 2)
    printed = capsys.readouterr().out
    assert "note: train_32x32.mat is not the official file: checksum" in printed
    assert ("counts and statistics are the official ones" in printed) == (off < 2e-4)


def test_verify_passes_a_good_folder(capsys, tmp_path):
    official.write_folder(tmp_path)
    assert main(["data", "verify", f"folder:{tmp_path}", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["splits"]["train"]["images"] == 12 and report["differences"] == []


def test_verify_takes_its_statistics_from_images_of_the_whole_set(tmp_path, monkeypatch):
    monkeypatch.setattr(verifying, "SAMPLE", 2)
    for colour in ("black", "white"):
        (tmp_path / colour).mkdir()
        for number in range(4):
            Image.new("RGB", (80, 80), colour).save(tmp_path / colour / f"{number}.png")
    facts = verify(f"folder:{tmp_path}").splits["train"]
    assert (facts["mean"], facts["std"]) == ([0.5] * 3, [0.5] * 3)
    assert facts["statistics_from"] == 2 and facts["images"] == 8


@pytest.mark.parametrize("name", [pytest.param("shapes", marks=pytest.mark.slow), "shapes:count=9"])
def test_verify_passes_the_shapes(capsys, name):
    assert main(["data", "verify", name]) == 0
    assert "nothing differs" in capsys.readouterr().out


def test_show_reports_an_output_that_cannot_be_written(capsys, tmp_path):
    (tmp_path / "nowhere").touch()
    out = str(tmp_path / "nowhere" / "sheet.png")
    assert main(["data", "show", "shapes:count=100", "--out", out]) == 2
    assert "Not a directory" in capsys.readouterr().err


@pytest.mark.parametrize(("split", "count", "holdout"), [("train", 100, 0.0), ("val", 10, 0.1)])
def test_show_shows_the_split_in_columns(split, count, holdout, capsys, tmp_path):
    out, data = tmp_path / "sheet.png", load("shapes:count=100", split, seed=3, holdout=holdout)
    words = ["data", "show", "shapes:count=100", "--split", split, "--columns", "2", "--seed", "3"]
    assert main([*words, "--out", str(out)]) == 0
    assert f"sheet.png: {count} images" in capsys.readouterr().out
    assert np.array_equal(np.asarray(Image.open(out)), np.asarray(contact_sheet(data, 2)))


def test_own_images_are_not_fetched(capsys):
    assert main(["data", "fetch", "folder:photos"]) == 2
    assert "there is nothing to fetch" in capsys.readouterr().err


def test_show_replaces_its_own_sheets_only(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("cats", "dogs"):
        official.write_folder(tmp_path / name)
        for _ in range(2):
            assert main(["data", "show", f"folder:{name}"]) == 0
    assert {path.name for path in tmp_path.glob("*.png")} == {
        "folder-cats-train.png",
        "folder-dogs-train.png",
    }
    for name, said in (("mine.png", "aib did not make it"), ("mine.jpg", "end in .png")):
        photo().save(name)
        before = (tmp_path / name).read_bytes()
        assert main(["data", "show", "folder:cats", "--out", name]) == 2
        assert said in " ".join(capsys.readouterr().err.split())
        assert (tmp_path / name).read_bytes() == before


def test_the_name_of_a_folder_alone_is_an_error_with_the_right_name(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    official.write_folder(tmp_path / "photos")
    for name in ("photos", "photos:image_size=32"):
        assert main(["data", "show", name]) == 2
        assert "folder:photos" in capsys.readouterr().err


def test_a_sheet_shows_letters_beyond_ascii_and_shortens_what_does_not_fit():
    def sheet(name):
        images = torch.zeros(2, 3, 32, 32, dtype=torch.uint8)
        data = ImageSet.from_tensors(images, torch.arange(2), class_names=[name, "dog"])
        return contact_sheet(data)

    assert sheet("ä").tobytes() != sheet("ñ").tobytes()
    before_images = np.asarray(sheet("W" * 17))[:60, LABEL_WIDTH - 6 : LABEL_WIDTH]
    assert (before_images == 255).all()  # seventeen of the widest letter are wider
