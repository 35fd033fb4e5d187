"""Opening runs and saved models: labels, images, packaged models."""

from pathlib import Path

import pytest
import torch

import aib
from aib import runs
from aib.runs import find_model, open_run, open_runs, read_settings
from tests.helpers import make_run, small_model


def test_runs_of_the_same_name_are_labelled_by_their_folder(tmp_path: Path) -> None:
    folders = tuple(make_run(tmp_path / name) for name in ("a/run", "b/run", "other"))
    opened = open_runs(folders, "cpu")
    assert [run.label for run in opened] == [str(folders[0]), str(folders[1]), "other"]
    assert {run.name for run in opened} == {"tiny_aib_qt"}
    with pytest.raises(aib.AibError, match="named twice"):
        open_runs((folders[0], tmp_path / "b" / ".." / "a" / "run"), "cpu")


def test_a_saved_model_has_no_settings_and_needs_the_name_of_its_data(tmp_path: Path) -> None:
    small_model().save_pretrained(tmp_path)
    run = open_run(tmp_path, "cpu")
    assert run.settings is None
    assert len(run.images("shapes:count=12", "test")) == 12
    with pytest.raises(aib.AibError, match="name its data with --data"):
        run.images()
    with pytest.raises(aib.AibError, match="a saved model, not a run"):
        read_settings(tmp_path)


def test_compared_runs_see_the_same_images(tmp_path: Path) -> None:
    first, same, other = (
        open_run(make_run(tmp_path / str(i), holdout=0.2, seed=seed), "cpu")
        for i, seed in enumerate((0, 0, 1))
    )
    mine, theirs = first.images(split="val"), same.images(split="val", like=first)
    assert mine.images is not None and theirs.images is not None
    assert torch.equal(mine.images, theirs.images)
    with pytest.raises(aib.AibError, match=r"2 and 0 held out different images .not the same seed"):
        other.images(split="val", like=first)
    unlike = make_run(tmp_path / "3", holdout=0.2, seed=1, data="shapes_spurious")
    with pytest.raises(aib.AibError, match="not the same data, seed"):
        open_run(unlike, "cpu").images(split="val", like=first)


def test_a_packaged_model_is_found_by_name_and_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_model().save_pretrained(tmp_path / "models" / "small")
    monkeypatch.setattr(runs, "PACKAGED", tmp_path / "models")
    monkeypatch.chdir(tmp_path)
    assert find_model(None) == find_model(Path("small")) == tmp_path / "models" / "small"
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "photo.jpg").touch()
    assert find_model(Path("small")) == tmp_path / "models" / "small"
    small_model().save_pretrained(tmp_path / "small")
    assert find_model(Path("small")) == Path("small")
    monkeypatch.setattr(runs, "PACKAGED", tmp_path / "nothing")
    with pytest.raises(aib.AibError, match="no pretrained model"):
        find_model(None)


def test_an_interrupted_run_is_named_as_such(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    (folder / "model.safetensors").rename(folder / "checkpoint.pt")
    with pytest.raises(aib.AibError, match=rf"interrupted run.*aib train --resume {folder}`"):
        open_run(folder, "cpu")
