"""Cluttered shapes: the same bytes for a seed, exact masks, difficulty, the spurious variant."""

import hashlib

import numpy as np
import pytest
import torch

from aib.data import load
from aib.data.shapes import BLOCK, TEST_SEED, Difficulty, generate

SHA256 = "eab21e52505b55c2de3019f32d6553d387ca9fd5360c74f219bd058d75b13e67"


@pytest.fixture(scope="module")
def block():
    return generate("train", 400, 0, Difficulty())


def test_seed_0_gives_the_known_bytes():
    """On every machine: measured the same on x86_64 and aarch64, with numpy 2.4 and 2.5."""
    data, digest = load("shapes:count=200", "train", holdout=0), hashlib.sha256()
    for tensor in (data.images, data.objects, data.labels):
        digest.update(tensor.numpy().tobytes())
    assert digest.hexdigest() == SHA256


def test_every_seed_has_the_same_test_images_and_its_own_training_images():
    known = generate("test", 50, TEST_SEED, Difficulty())
    for seed in (0, 1, TEST_SEED):
        test = load("shapes:count=50", "test", seed=seed)
        assert np.array_equal(test.images.numpy(), known.images)
        assert np.array_equal(test.objects.numpy(), known.objects)
        assert test.labels.tolist() == known.labels.tolist()
    one, other = (load("shapes:count=50", "train", seed=s, holdout=0).images for s in (0, 1))
    assert not torch.equal(one, other)


def test_an_image_does_not_depend_on_their_number(block):
    fewer = generate("train", BLOCK + 7, 0, Difficulty())
    assert np.array_equal(fewer.images, block.images[: BLOCK + 7])
    assert np.array_equal(fewer.objects, block.objects[: BLOCK + 7])


def test_the_mask_is_the_shape(block):
    """Inside the mask the colour is one (up to noise and soft edges); outside it is not."""
    pairs = list(zip(block.images, block.objects, strict=True))
    inside = [image[:, mask].std(1).mean() for image, mask in pairs]
    outside = [image[:, ~mask].std(1).mean() for image, mask in pairs]
    assert np.median(inside) < 15 < np.median(outside)
    plain, cluttered = (
        generate("train", 400, 0, Difficulty(clutter=c)).objects for c in (0.0, 2.0)
    )
    assert cluttered.sum() < plain.sum()  # strokes in front are cut out of it
    area = block.objects.mean((1, 2))
    assert area.min() > 0.02 and area.max() < 0.5


def accuracy_from_background(split: str) -> float:
    """Accuracy of the class with the nearest mean background colour in the training images."""
    train = load("shapes_spurious:count=1000", "train", holdout=0)
    data = load("shapes_spurious:count=1000", split, holdout=0)

    def background(images, objects):
        weight = (objects == 0).float()[:, None]
        return (images.float() * weight).sum((2, 3)) / weight.sum((2, 3))  # [N,3]

    colours = background(train.images, train.objects)
    means = torch.stack([colours[train.labels == k].mean(0) for k in range(10)])  # [10,3]
    guess = torch.cdist(background(data.images, data.objects), means).argmin(1)
    return (guess == data.labels).float().mean().item()


def test_a_spurious_background_colour_predicts_in_training_and_not_in_test():
    assert accuracy_from_background("train") > 0.8
    assert accuracy_from_background("test") < 0.2
