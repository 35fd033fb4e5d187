"""The images that choose thresholds of localisation."""

from dataclasses import replace

import pytest
import torch

from aib.data import Batches, load
from aib.interpret import replaced, swap_maps
from aib.interpret.runs import check_alike, feed_for, study_run, threshold_feed
from aib.interpret.studies import Plan
from aib.runs.run import open_run
from tests.data import official
from tests.helpers import eval_model, make_run, shapes

PLAN = Plan({}, subset=4)
CUB = "cub200:partial,image_size=32"


def cub_run(folder, **settings):
    """A run on a few birds with boxes."""
    official.write_cub(folder)
    model = eval_model("tiny_aib", load(CUB, "test", root=folder), num_classes=3)
    made = make_run(folder / "run", "tiny_aib", model, data=CUB, root=str(folder), **settings)
    return open_run(made, "cpu")


@pytest.mark.parametrize("resize", ["crop", "squash"])
def test_runs_that_see_other_parts_of_a_photograph_are_warned_of(resize, tmp_path, recwarn):
    data = f"folder:{official.write_folder(tmp_path / 'photos')}:image_size=72"
    trained = load(f"{data},resize=squash", "train"), load(f"{data},resize={resize}", "train")
    runs, feeds = [], []
    for i, own in enumerate(trained):
        model = eval_model("tiny_aib", own, num_classes=3)
        runs.append(open_run(make_run(tmp_path / f"run{i}", "tiny_aib", model, data=data), "cpu"))
        feeds.append(Batches(own, 2))
    check_alike(feeds, runs)
    found = [str(one.message) for one in recwarn if "part of an image" in str(one.message)]
    wanted = "run0 resizes images by squash and run1 by crop: they do not see the same part"
    assert [text.startswith(wanted) for text in found] == [True] * (resize == "crop")


def test_thresholds_on_shapes_come_from_images_that_nobody_trained_on(tmp_path):
    run = open_run(make_run(tmp_path / "run", data="shapes:size=small", seed=3), "cpu")
    feed = feed_for(run, run.labelled(run.images("shapes:count=6,size=small")))
    chosen = threshold_feed(run, feed, "shapes:size=small", PLAN)
    fresh = load("shapes:count=4,size=small", "train", seed=4, holdout=0)
    assert torch.equal(chosen.data.images, fresh.images)
    assert torch.equal(chosen.data.objects, fresh.objects)


@pytest.mark.parametrize(
    ("holdout", "evaluated", "split", "count"),
    [(0.4, "test", "val", 3), (0.0, "test", "train", 4), (0.4, "val", "train", 4)],
)
def test_thresholds_come_from_held_out_images_else_from_training(
    tmp_path, holdout, evaluated, split, count
):
    run = cub_run(tmp_path, holdout=holdout)
    feed = feed_for(run, run.labelled(run.images(CUB, evaluated)))
    chosen = threshold_feed(run, feed, CUB, PLAN)
    assert chosen.data.split == split and chosen.num_images == count
    assert chosen.data.has_only_boxes


def test_a_model_without_settings_may_have_seen_every_training_image(tmp_path):
    run = replace(cub_run(tmp_path), settings=None)
    feed = feed_for(run, run.labelled(run.images(CUB, "test", str(tmp_path))))
    assert threshold_feed(run, feed, CUB, PLAN, str(tmp_path)).data.split == "train"


def test_thresholds_do_not_come_from_images_that_are_evaluated(tmp_path):
    first, root = cub_run(tmp_path, holdout=0.4), str(tmp_path)
    other = replace(first, settings=None)  # a saved model, compared on what the first held out
    feed = feed_for(other, other.labelled(other.images(CUB, "val", root, like=first)))
    chosen = threshold_feed(other, feed, CUB, Plan({}, subset=99), root, like=first)
    total = len(load(CUB, "train", root=tmp_path, holdout=0))
    assert chosen.num_images == total - feed.num_images


def test_thresholds_on_other_data_do_not_come_from_images_that_are_evaluated(tmp_path):
    run, root = replace(cub_run(tmp_path), settings=None), str(tmp_path)
    feed = feed_for(run, run.labelled(run.images(CUB, "val", root)))
    chosen = threshold_feed(run, feed, CUB, Plan({}, subset=99), root, like=run)
    assert len(run.labelled(run.images(CUB, "train", root))) == chosen.num_images + feed.num_images


def test_without_masks_and_on_training_images_there_are_none(tmp_path):
    run = cub_run(tmp_path)
    training = feed_for(run, run.labelled(run.images(CUB, "train")))
    assert threshold_feed(run, training, CUB, PLAN) is None
    cropped = f"{CUB},crop"
    test = feed_for(run, run.labelled(run.images(cropped, "test", str(tmp_path))))
    assert threshold_feed(run, test, cropped, PLAN, str(tmp_path)) is None


def test_without_masks_of_training_images_there_are_none(tmp_path):
    photos = tmp_path / "photos"
    for folder in ("train", "test", "masks/test"):
        official.write_folder(photos / folder, classes=2)
    data = f"folder:{photos}:image_size=32"
    model = eval_model("tiny_aib", load(data, "test"), num_classes=2)
    run = open_run(make_run(tmp_path / "run", "tiny_aib", model, data=data), "cpu")
    feed = feed_for(run, run.labelled(run.images()))
    assert feed.data.has_objects and threshold_feed(run, feed, data, PLAN) is None


def test_a_study_names_the_images_of_its_thresholds(tmp_path):
    run = open_run(make_run(tmp_path / "run", "tiny_aib"), "cpu")
    feed = feed_for(run, run.labelled(run.images("shapes:count=4")))
    other = threshold_feed(run, feed, "shapes", PLAN)
    found, _ = study_run(run, feed, PLAN, "shapes", threshold_images=other)
    assert found.threshold_images == "4 held-out training images of shapes"
    assert found.localisation["own"].box_acc_held_out is not None
    quick, _ = study_run(run, feed, PLAN, "shapes", expensive=False, threshold_images=other)
    assert quick.threshold_images is None


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # a CPU without bf16
def test_a_study_in_half_precision_says_so_and_measures_nearly_the_same(tmp_path):
    run = open_run(make_run(tmp_path / "run", "tiny_aib_masked"), "cpu")
    feed = feed_for(run, run.labelled(run.images("shapes:count=4")))
    (full, maps), (half, maps_16) = (
        study_run(run, feed, Plan({}, subset=2, precision=precision), "shapes")
        for precision in ("fp32", "bf16")
    )
    assert "forward passes in bf16" in half.notes and "forward passes in bf16" not in full.notes
    assert not torch.equal(maps.columns["auroc"], maps_16.columns["auroc"])
    assert torch.allclose(maps.columns["auroc"], maps_16.columns["auroc"], atol=0.02)
    assert set(half.faithfulness) == set(full.faithfulness)
    assert half.randomised_layers == full.randomised_layers  # always in full precision


def test_a_quantised_mask_gets_its_own_map_back_as_it_was_applied(monkeypatch):
    """Otherwise swaps would also measure what quantising the map changes."""
    model = eval_model("tiny_aib_masked", quantise_map=True, num_anchors=2)
    given = {}

    def recorded(predict, maps, batches, **options):
        given["m"] = maps
        return swap_maps(predict, maps, batches, **options)

    monkeypatch.setattr(replaced, "map_reliance", lambda decisions, masked: decisions)
    monkeypatch.setattr(replaced, "map_encoding", lambda decisions, seed: None)
    monkeypatch.setattr(replaced, "swap_maps", recorded)
    replaced.replace_maps(model, Batches(shapes(4), 4))
    x = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        own = model(x, deterministic=True)
        again = model(x, deterministic=True, attention_map=given["m"](x))
    assert torch.equal(own.mask, again.mask) and own.attention.mu.unique().numel() > 2


def test_thresholds_come_from_images_with_masks(tmp_path):
    photos = tmp_path / "photos"
    for folder in ("train", "test", "masks/test", "masks/train"):
        official.write_folder(photos / folder, classes=2)
    for mask in photos.glob("masks/train/*/[123].png"):
        mask.unlink()
    data = f"folder:{photos}:image_size=32"
    model = eval_model("tiny_aib", load(data, "test"), num_classes=2)
    run = open_run(make_run(tmp_path / "run", "tiny_aib", model, data=data, holdout=0.0), "cpu")
    feed = feed_for(run, run.labelled(run.images()))
    chosen = threshold_feed(run, feed, data, PLAN)
    assert chosen.num_images == 2 and bool((chosen.data.objects != 255).all())
    photographs = load(f"folder:{photos}:image_size=72", "train", holdout=0)  # stay files
    assert photographs.has_object().tolist() == [True, False, False, False] * 2
