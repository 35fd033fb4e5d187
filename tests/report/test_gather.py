"""What a run's page is made of: the files of its folder, and what is measured for it."""

from dataclasses import replace

import pytest
from aib.report.gallery import make_gallery

from aib.data import load
from aib.errors import AibError
from aib.evaluation.error import evaluate
from aib.interpret.results import Information, Study
from aib.interpret.runs import feed_for
from aib.report.gather import gather
from aib.runs.run import open_run
from aib.system.files import read_json, sha256, write_json
from tests.data import official
from tests.helpers import eval_model, make_run, photo, shapes
from tests.tools.results.stored import evaluation

FEW = {"images": 4, "subset": 2}


@pytest.fixture
def folder(tmp_path):
    return make_run(tmp_path / "run", data="shapes:count=40")


def write_evaluation(folder, name="shapes:count=40 test", **values):
    write_json(folder / "evaluation.json", {name: evaluation(12.5, "shapes") | values})


def write_study(folder, **values):
    study = Study("tiny_aib_qt", 400, 90.0, {}, "not measured", Information(), split="test")
    origin = {"data": "shapes", "weights_sha256": sha256(folder / "model.safetensors")}
    write_json(folder / "interpret.json", study.to_dict() | origin | values)
    (folder / "figures").mkdir(exist_ok=True)
    photo().save(folder / "figures" / "modified.png")


def test_everything_is_measured_on_the_same_sampled_images_with_the_models_labels(tmp_path):
    model = eval_model(data=shapes(2))
    names = model.preprocessing.class_names[::-1]
    model.preprocessing = replace(model.preprocessing, class_names=names)
    run = open_run(make_run(tmp_path / "run", model=model), "cpu")
    data = "shapes:count=60"
    content = gather(run, data=data, images=30, subset=2, seed=3)
    images = run.labelled(run.images(data))
    feed = feed_for(run, images, images=30, seed=3)
    assert content.gallery == make_gallery(run.model, feed, seed=3)
    found = evaluate(run.model, images.subset(feed.indices), seed=3)
    assert (content.calibrated.images, content.calibrated.nll) == (30, found.nll)
    study = content.study
    assert (study.images, study.subset_images, study.seed, study.data) == (30, 2, 3, data)
    assert "Measured for this page on 30 images" in study.notes[0] and content.notes == ()
    assert content.environment == read_json(run.folder / "config.json")["environment"]


def test_compared_runs_are_measured_on_the_images_of_the_first(folder, tmp_path):
    other = open_run(make_run(tmp_path / "other", holdout=0.1), "cpu")
    content = gather(other, like=open_run(folder, "cpu"), **FEW)
    study = content.study
    assert (study.data, study.split, study.of_images) == ("shapes:count=40", "test", 40)
    assert (content.label, content.notes) == ("other", ())


def test_a_run_that_held_out_images_is_measured_on_them_until_test_images_are_evaluated(tmp_path):
    run = open_run(make_run(tmp_path / "run", data="shapes:count=40", holdout=0.2), "cpu")
    assert gather(run, **FEW).study.split == "val"
    assert gather(run, data="shapes_spurious:count=40", **FEW).study.split == "test"
    write_evaluation(run.folder)
    assert gather(run, **FEW).study.split == "test"


def test_a_stored_study_is_kept_and_one_of_other_weights_or_data_replaced(folder):
    write_study(folder)
    content = gather(open_run(folder, "cpu"), **FEW)
    assert content.study.images == 400 and len(content.pictures) == 1 and content.notes == ()
    content = gather(open_run(folder, "cpu"), data="shapes:count=6", **FEW)
    assert content.study.data == "shapes:count=6" and "is about shapes, not" in content.notes[0]
    assert content.pictures == ()
    write_study(folder, weights_sha256="0")
    write_evaluation(folder, weights_sha256="0")
    content = gather(open_run(folder, "cpu"), **FEW)
    assert content.study.images == 4 and content.pictures == () and content.evaluations == {}
    assert ["other weights" in note for note in content.notes] == [True, True]


def test_stored_bins_of_calibration_are_those_of_the_runs_own_data(folder):
    bins = {"images": [2, 6], "accuracy": [0.5, 1.0], "confidence": [0.4, 0.9]}
    write_evaluation(folder, calibration_bins=bins)
    run = open_run(folder, "cpu")
    assert gather(run, **FEW).calibrated == next(iter(run.evaluations().values()))
    assert gather(run, data="shapes_spurious:count=40", **FEW).calibrated.images == 4


def test_a_folder_without_test_images_has_none_to_evaluate(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    official.write_folder(tmp_path / "photos")
    folder = make_run(tmp_path / "run", data="folder:photos", holdout=0.2)
    write_evaluation(folder, "folder:photos val", split="val")
    content = gather(open_run(folder, "cpu"), stored=True)
    assert content.own_evaluation.split == "val" and content.notes == ()


def test_files_that_are_gone_are_a_note_unless_their_data_or_another_folder_is_named(tmp_path):
    data = "cub200:partial,image_size=32"
    official.write_cub(tmp_path)
    model = eval_model("tiny_aib", load(data, "test", root=tmp_path), num_classes=3)
    run = open_run(make_run(tmp_path / "run", model=model, data=data, root="gone"), "cpu")
    content = gather(run, **FEW)
    assert content.study is None and len(content.notes) == 1 and "gone" in content.notes[0]
    with pytest.raises(AibError, match="gone"):
        gather(run, data=data, **FEW)
    assert gather(run, root=str(tmp_path), **FEW).study.images == 4
