"""Photographs with masks: CUB and Oxford-IIIT Pet as published, with their oddities."""

import shutil

import pytest
import torch

from aib.data import Batches, load
from tests.data import official


@pytest.fixture
def birds(tmp_path):
    """The root of a tiny CUB, whose masks are in its folder."""
    folder = official.write_cub(tmp_path)
    names = [line.split()[1] for line in (folder / "images.txt").read_text().splitlines()]
    official.write_segmentations(folder / "segmentations", names)
    return tmp_path


def shows_the_red_box(data, index: int = 0) -> bool:
    """Whether the mask is where the image is red; but for its four corners, which are blurred."""
    differs = (data.mask(index) == 1) != (data.pixels(index)[0] > 127)
    return int(differs.sum()) <= 4


def test_a_bird_is_where_its_segmentation_is_brighter_than_127(birds):
    data = load("cub200:image_size=120", "test", root=birds)
    mask = data.mask(0)  # [120,120]: three times as wide, four times as high
    assert mask.dtype == torch.uint8 and data.has_outlines
    assert shows_the_red_box(data)
    assert data.keys[0] == "002.Bird_1/Bird_1.png"
    assert mask.sum() == 60 * 60 and data.box(0).tolist() == [30, 20, 90, 80]


def test_segmentations_may_lie_beside_the_set_and_without_any_the_boxes_remain(birds):
    within = load("cub200", "test", root=birds).mask(0)
    shutil.move(birds / "CUB_200_2011/segmentations", birds / "segmentations")
    assert torch.equal(load("cub200", "test", root=birds).mask(0), within)
    shutil.rmtree(birds / "segmentations")
    data = load("cub200:image_size=120", "test", root=birds)
    assert not data.has_outlines and data.files.objects == ()
    assert shows_the_red_box(data)


def test_a_box_that_overruns_is_clipped_to_the_image(birds):
    boxes = birds / "CUB_200_2011/bounding_boxes.txt"
    boxes.write_text(boxes.read_text().replace("1 10.0 5.0 20.0 15.0\n2", "1 10 5 31 40\n2"))
    whole = load("cub200:image_size=80", "test", root=birds)
    assert whole.box(0).tolist() == pytest.approx([20, 40 / 3, 80, 80])
    assert torch.equal(next(iter(Batches(whole, 4))).boxes[0], whole.box(0))
    cropped = load("cub200:crop,image_size=80", "test", root=birds)
    assert cropped.pixels(0).shape == cropped.mask(0).expand(3, -1, -1).shape


def test_pets_have_breeds_splits_and_trimaps_if_they_are_there(tmp_path):
    folder = official.write_pets(tmp_path)
    train = load("pets", "train", root=tmp_path, holdout=0)
    test = load("pets:image_size=8", "test", root=tmp_path)
    assert train.class_names == ("Abyssinian", "great_pyrenees")
    assert test.keys == ("Abyssinian_3.jpg", "great_pyrenees_3.jpg")
    assert train.labels.tolist() == [0, 0, 1, 1] and test.labels.tolist() == [0, 1]
    row = torch.tensor([1, 1, 1, 1, 255, 255, 0, 0], dtype=torch.uint8)
    assert torch.equal(test.mask(0), row.expand(8, 8)) and test.boxes is None
    (folder / "annotations/trimaps/Abyssinian_3.png").unlink()
    data = load("pets", "test", root=tmp_path)
    assert (data.mask(0) == 255).all() and not (data.mask(1) == 255).all()
    shutil.rmtree(folder / "annotations/trimaps")
    assert not load("pets", "test", root=tmp_path).has_objects
