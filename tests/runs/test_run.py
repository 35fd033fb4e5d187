"""Opening runs and saved models: labels, images, packaged models."""

import json
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch
from filelock import FileLock

import aib
from aib.config.settings import Settings
from aib.data import load
from aib.models.weights import CHECKPOINT, LOCK
from aib.runs.files import read_settings, write_evaluation, write_held_out
from aib.runs.pretrained import find_model
from aib.runs.run import Run, open_run, open_runs
from tests.data import official
from tests.helpers import make_run, photo, shapes, small_model, start_run


def folder_run(folder: Path, data: str) -> Run:
    """A run that held out one image of each of three classes."""
    model, images = small_model(num_classes=3), load(data, "val", holdout=0.2)
    settings = Settings(data=data, model="tiny_aib_qt", holdout=0.2).updated(width=0.25)
    start_run(folder, model, settings, images.keys).write_weights(model)
    return open_run(folder, "cpu")


def test_runs_of_the_same_name_are_labelled_by_their_folder(tmp_path: Path) -> None:
    folders = tuple(make_run(tmp_path / name) for name in ("a/run", "b/run", "other"))
    opened = open_runs(folders, "cpu")
    assert [run.label for run in opened] == [str(folders[0]), str(folders[1]), "other"]
    assert {run.name for run in opened} == {"tiny_aib_qt"}
    with pytest.raises(aib.AibError, match="named twice"):
        open_runs((folders[0], tmp_path / "b" / ".." / "a" / "run"), "cpu")


def test_a_run_without_weights_is_being_trained_or_was_interrupted(tmp_path: Path) -> None:
    run = start_run(tmp_path / "run", small_model(), Settings(data="shapes"), None)
    (run.folder / CHECKPOINT).write_bytes(b"")
    with FileLock(run.folder / LOCK), pytest.raises(aib.AibError, match="is being trained"):
        open_run(run.folder, "cpu")
    with pytest.raises(aib.AibError, match="is an interrupted run"):
        open_run(run.folder, "cpu")


def test_a_saved_model_has_no_settings_and_needs_the_name_of_its_data(tmp_path: Path) -> None:
    small_model().save_pretrained(tmp_path)
    run = open_run(tmp_path, "cpu")
    assert run.settings is None
    assert len(run.images("shapes:count=12", "test")) == 12
    with pytest.raises(aib.AibError, match="name its data with --data"):
        run.images()
    with pytest.raises(aib.AibError, match="a saved model, not a run"):
        read_settings(tmp_path)


def test_runs_are_compared_on_images_that_both_held_out(tmp_path: Path) -> None:
    data = f"folder:{official.write_folder(tmp_path / 'photos')}"
    first, same, other = (folder_run(tmp_path / name, data) for name in ("a", "b", "c"))
    mine, theirs = first.images(split="val"), same.images(split="val", like=first)
    assert mine.keys == theirs.keys and len(mine) == 3
    keys = [key for key in load(data).keys if key not in mine.keys][:3]
    write_held_out(other.folder, keys)
    with pytest.raises(aib.AibError, match="c and a held out different images"):
        open_run(other.folder, "cpu").images(split="val", like=first)
    assert set(first.images(split="train").keys) == set(load(data, holdout=0).keys) - set(mine.keys)


def test_shapes_of_another_seed_are_other_images(tmp_path: Path) -> None:
    data = "shapes:count=40"
    keys = load(data, "val", holdout=0.2).keys
    runs = []
    for seed in (0, 1):
        settings = Settings(data=data, model="tiny_aib_qt", holdout=0.2, seed=seed)
        model = small_model(width=1.0)
        start_run(tmp_path / str(seed), model, settings, keys).write_weights(model)
        runs.append(open_run(tmp_path / str(seed), "cpu"))
    with pytest.raises(aib.AibError, match="held out different images"):
        runs[1].images(split="val", like=runs[0])


def test_the_model_says_how_images_are_resized_whatever_the_datas_name(tmp_path: Path) -> None:
    for i in range(4):
        folder = tmp_path / "photos" / "ab"[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        photo(40, 80, seed=i).save(folder / f"{i}.png")
    policy = aib.Preprocessing(image_size=48, resize="crop")
    small_model(num_classes=2, preprocessing=policy).save_pretrained(tmp_path / "saved")
    run, data = open_run(tmp_path / "saved", "cpu"), f"folder:{tmp_path / 'photos'}"
    wanted = run.images(data).pixels(0)
    for options in ("image_size=48", "image_size=32,resize=squash"):
        assert torch.equal(run.images(f"{data}:{options}").pixels(0), wanted)


@pytest.mark.parametrize("split", [None, "val"])
def test_a_run_is_not_compared_on_its_training_images(tmp_path: Path, split: str | None) -> None:
    data = f"folder:{official.write_folder(tmp_path / 'photos')}"
    run = folder_run(tmp_path / "run", data)
    small_model(num_classes=3).save_pretrained(tmp_path / "saved")
    saved = open_run(tmp_path / "saved", "cpu")
    with pytest.raises(aib.AibError, match="run was trained on .* name it before saved"):
        run.images(data, split, like=saved)
    assert len(saved.images(data, split, like=run)) == len(run.images(data, split)) == 3
    assert len(run.images(data, "train", like=saved)) == 12  # on request


def test_a_packaged_model_is_found_by_name_and_is_the_default(tmp_path, monkeypatch):
    small_model().save_pretrained(tmp_path / "models" / "small")
    monkeypatch.setattr("aib.runs.pretrained.PACKAGED", tmp_path / "models")
    monkeypatch.chdir(tmp_path)
    assert find_model(None) == find_model(Path("small")) == tmp_path / "models" / "small"
    assert aib.from_pretrained("small").recipe == small_model().recipe
    with pytest.raises(aib.AibError, match=r"no packaged model of that name \(small\)"):
        aib.from_pretrained("smal")  # at once: no such name can be on the Hub
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "photo.jpg").touch()
    assert find_model(Path("small")) == tmp_path / "models" / "small"
    small_model().save_pretrained(tmp_path / "small")
    assert find_model(Path("small")) == Path("small")
    monkeypatch.setattr("aib.runs.pretrained.PACKAGED", tmp_path / "nothing")
    with pytest.raises(aib.AibError, match="no pretrained model"):
        find_model(None)


def add_evaluations(folder: Path, name: str) -> None:
    for i in range(30):
        write_evaluation(folder, f"{name} {i}", {"top1_error": 1.0})


def test_two_processes_may_add_evaluations_at_the_same_time(tmp_path: Path) -> None:
    with get_context("fork").Pool(2) as pool:
        pool.starmap(add_evaluations, [(tmp_path / "run", name) for name in "ab"], chunksize=1)
    assert len(json.loads((tmp_path / "run/evaluation.json").read_text())) == 60


def test_evaluations_of_weights_that_were_replaced_are_left_out(tmp_path: Path) -> None:
    run = open_run(make_run(tmp_path), "cpu")
    found = aib.evaluate(run.model, shapes(8))
    for name, checksum in (("now", run.checksum), ("before", "0" * 64), ("unknown", None)):
        write_evaluation(tmp_path, name, replace(found, weights_sha256=checksum).to_dict())
    assert list(run.evaluations()) == ["now", "unknown"]
