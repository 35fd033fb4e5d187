"""The official formats are read as published: pixels, labels, splits, class names."""

import numpy as np
import pytest

from aib.data import load
from tests.data import official


def test_cifar10_has_its_pixels_labels_and_classes(tmp_path):
    images, labels = official.write_cifar10(tmp_path)
    train = load("cifar10", "train", root=tmp_path, holdout=0)
    assert np.array_equal(train.images, images)
    assert train.labels.tolist() == labels.tolist()
    assert train.class_names[0] == "airplane" and train.class_names[9] == "truck"
    assert len(load("cifar10", "test", root=tmp_path)) == 20


def test_the_root_may_be_the_set_s_own_folder(tmp_path):
    official.write_cifar10(tmp_path)
    official.write_svhn(tmp_path)
    assert len(load("cifar10", "test", root=tmp_path / "cifar-10-batches-bin")) == 20
    assert len(load("svhn", "test", root=tmp_path / "svhn")) == 40


def test_cifar100_has_its_fine_labels(tmp_path):
    images, fine = official.write_cifar100(tmp_path)
    data = load("cifar100", "test", root=tmp_path)
    assert np.array_equal(data.images, images)
    assert data.labels.tolist() == fine.tolist() and data.num_classes == 100


@pytest.mark.parametrize("split", ["train", "test"])
def test_svhn_calls_the_digit_zero_0_and_must_not_be_mirrored(tmp_path, split):
    images, labels = official.write_svhn(tmp_path)
    digits = load("svhn", split, root=tmp_path, holdout=0)
    assert np.array_equal(digits.images, images)
    assert digits.labels.tolist() == (labels % 10).tolist()
    assert not digits.mirror


def test_stl10_is_upright_with_its_own_classes(tmp_path):
    images, labels = official.write_stl10(tmp_path)
    raw = load("stl10", "test", root=tmp_path)
    assert np.array_equal(raw.images, images)
    assert raw.labels.tolist() == (labels - 1).tolist()
    assert raw.class_names[:3] == ("airplane", "bird", "car")


def test_cub_has_its_splits_classes_and_boxes_or_shows_the_boxes_alone(tmp_path):
    official.write_cub(tmp_path)
    test = load("cub200", "test", root=tmp_path)
    assert len(test) == 4 and test.class_names == ("Bird_0", "Bird_1", "Bird_2")
    assert test.boxes[0].tolist() == [10.0, 5.0, 30.0, 20.0]
    cropped = load("cub200:crop", "train", root=tmp_path, holdout=0)
    assert cropped.boxes is None
    assert (cropped.pixels(0)[0] == 255).all() and (cropped.pixels(0)[2] == 0).all()
