"""Batches: correct pixels, and the same ones for any number of workers, ranks and resumptions."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from aib.data import Batches, ImageSet, load
from aib.data.augment import EpochPlan, crop_batch, crop_image, cut_out
from aib.errors import AibError
from tests.data import official
from tests.helpers import image_set, pixels, shapes


def in_memory(count: int = 103, side: int = 32, num_classes: int = 7) -> ImageSet:
    return image_set(count, num_classes, side, mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4))


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory) -> ImageSet:
    folder = official.write_folder(tmp_path_factory.mktemp("photos"), per_class=9, side=80)
    return load(f"folder:{folder}:image_size=72", "train", holdout=0)


def same(a, b) -> bool:
    a, b = list(a), list(b)
    return len(a) == len(b) and all(
        torch.equal(x, u) and torch.equal(y, v) for (x, y), (u, v) in zip(a, b, strict=True)
    )


def order(batches: Batches, epoch: int = 0) -> list[int]:
    """The images of an epoch, for data in which every image has a class of its own."""
    return torch.cat([y for _, y in batches.epoch(epoch)]).tolist()


@pytest.mark.parametrize(
    ("pad", "flip"), [(0, False), (0, True), (4, False), (4, True), (31, True)]
)
def test_the_batched_crop_equals_one_image_after_another(pad, flip):
    images = pixels(40)
    plan = EpochPlan.sample(40, seed=1, epoch=2)
    batch = crop_batch(images, plan.order, plan.uniform, pad=pad, flip=flip)
    for position, index in enumerate(plan.order.tolist()):
        down, across, mirror = plan.uniform[position, :3].tolist()
        top, left = int(down * (2 * pad + 1)), int(across * (2 * pad + 1))
        padded = F.pad(images[index].float(), (pad,) * 4, mode="reflect")
        expected = padded[:, top : top + 32, left : left + 32]
        if flip and mirror < 0.5:
            expected = expected.flip(2)
        assert torch.equal(batch[position].float(), expected)


def test_without_padding_and_mirroring_training_shows_the_images_as_they_are(on_disk):
    dense = image_set(20, num_classes=4)
    strided = replace(dense, images=dense.images.contiguous(memory_format=torch.channels_last))
    for data in (dense, strided, on_disk):
        batches = Batches(data, 8, train=True, pad=0, flip=False, cache="memory")
        plain = data.preprocessing.normalise(data.in_memory().images)
        assert data.mirror
        for epoch in range(2):
            images = EpochPlan.sample(len(data), seed=0, epoch=epoch).order
            for step, (x, y) in enumerate(batches.epoch(epoch)):
                index = images[8 * step :][:8]
                assert torch.equal(x, plain[index]) and torch.equal(y, data.labels[index])


def test_images_that_may_not_be_mirrored_are_only_if_the_caller_says_so():
    data = image_set(20, num_classes=20, mirror=False)
    for flip, flipped in ((None, False), (True, True)):
        ((x, y),) = Batches(data, 20, train=True, pad=0, flip=flip).epoch(0)
        mirrored = x == data.preprocessing.normalise(data.images[y]).flip(3)
        assert bool(mirrored.flatten(1).all(1).any()) == flipped


def test_a_crop_of_a_large_image_has_the_area_ratio_and_position_of_its_random_numbers():
    """Found from two ramps: red rises from left to right, green from top to bottom."""
    ramp = np.linspace(0, 255, 400).astype(np.uint8)
    ramps = np.stack(np.broadcast_arrays(ramp[None], ramp[:, None], 0), -1).astype(np.uint8)
    down, across, area, ratio = 0.2, 0.7, 0.3, 0.9
    uniform = torch.tensor([down, across, 0.1, area, ratio, 0, 0])
    crop, mirrored = (
        np.asarray(crop_image(Image.fromarray(ramps), uniform, size=64, flip=flip), float)
        for flip in (False, True)
    )
    assert np.array_equal(mirrored, crop[:, ::-1])
    ends = {"width": crop[0, [0, -1], 0], "height": crop[[0, -1], 0, 1]}  # centres of 1/64 each
    width, height = (np.diff(ends[side])[0] * 64 / 63 / 255 for side in ("width", "height"))
    assert width * height == pytest.approx(0.25 + 0.75 * area, rel=0.03)
    assert width / height == pytest.approx((4 / 3) ** (2 * ratio - 1), rel=0.03)
    left, top = ends["width"][0] / 255 - width / 128, ends["height"][0] / 255 - height / 128
    assert (left, top) == pytest.approx((across * (1 - width), down * (1 - height)), abs=0.01)


@pytest.mark.parametrize("side", [1, 8, 40])
def test_a_cut_out_blanks_exactly_its_square(side):
    x = torch.rand(50, 3, 32, 32) + 1
    uniform = EpochPlan.sample(50, seed=3, epoch=0).uniform
    cut = cut_out(x.clone(), uniform, side)
    for image, before, u in zip(cut, x, uniform, strict=True):
        top, left = int(u[5] * 32) - side // 2, int(u[6] * 32) - side // 2
        expected = before.clone()
        expected[:, max(top, 0) : max(top + side, 0), max(left, 0) : max(left + side, 0)] = 0
        assert torch.equal(image, expected)


def test_evaluation_gives_every_image_once_in_order():
    data = shapes(23)
    batches = Batches(data, 10)
    x, y = (torch.cat(part) for part in zip(*batches.epoch(0), strict=True))
    assert len(batches) == 3 and batches.num_images == 23
    assert torch.equal(x, data.preprocessing.normalise(data.images))
    assert torch.equal(y, data.labels)
    for name, whole in (
        ("index", torch.arange(23)),
        ("images", data.images),
        ("labels", data.labels),
        ("objects", data.objects),
    ):
        assert torch.equal(torch.cat([getattr(batch, name) for batch in batches]), whole)


def test_a_subset_keeps_the_indices_of_the_data_set():
    data = in_memory(50)
    chosen = torch.tensor([3, 7, 20, 21, 40])
    batches = Batches(data, 2, indices=chosen)
    few = batches.subset(torch.tensor([1, 3]))
    assert [batch.index.tolist() for batch in batches] == [[3, 7], [20, 21], [40]]
    assert batches.num_images == 5 and few.num_images == 2
    [batch] = few
    assert batch.index.tolist() == [7, 21] and torch.equal(batch.images, data.images[[7, 21]])
    sampled = torch.cat([batch.index for batch in batches.sample(3, seed=1)])
    assert len(sampled) == 3 and set(sampled.tolist()) < set(chosen.tolist())
    assert [x.shape[0] for x, _ in batches.epoch(0)] == [2, 2, 1]


@pytest.mark.parametrize("world", [2, 5])
def test_ranks_together_see_what_one_process_sees(world, count=103):
    data, options = in_memory(count, num_classes=count), {"train": True, "seed": 5}
    alone = list(Batches(data, 6 * world, **options).epoch(3))
    ranks = [Batches(data, 6, rank=r, world_size=world, **options) for r in range(world)]
    for step, (x, y) in enumerate(alone):  # also resumed there
        parts = [next(rank.epoch(3, start=step)) for rank in ranks if step < len(rank)]
        assert torch.equal(torch.cat([p[0] for p in parts]), x)
        assert torch.equal(torch.cat([p[1] for p in parts]), y)
    assert {len(rank) for rank in ranks} == {len(alone)}
    seen = torch.cat([y for _, y in alone]).tolist()  # each once; training drops the rest
    assert len(set(seen)) == len(seen) == count // (6 * world) * 6 * world


def test_seed_and_epoch_change_the_order_and_the_global_generator_does_not():
    data = in_memory(num_classes=103)
    orders = [order(Batches(data, 10, train=True, seed=s), e) for s, e in ((0, 0), (0, 1), (1, 0))]
    assert orders[0] != orders[1] != orders[2] != orders[0]
    torch.manual_seed(1)
    before = torch.get_rng_state()
    assert order(Batches(data, 10, train=True)) == orders[0]
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("train", [True, False])
def test_the_number_of_workers_changes_nothing(on_disk, train):
    alone, two = (Batches(on_disk, 4, train=train, seed=1, workers=w) for w in (0, 2))
    before = torch.get_rng_state()
    assert same(alone.epoch(1), two.epoch(1))
    assert torch.equal(torch.get_rng_state(), before)
    assert same(list(alone.epoch(1))[2:], two.epoch(1, start=2))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_file_that_breaks_later_is_named_in_one_sentence(tmp_path, workers):
    folder = official.write_folder(tmp_path, side=80)
    data = load(f"folder:{folder}:image_size=72", "train", holdout=0)
    (folder / "class_1/2.png").write_text("gone")
    with pytest.raises(AibError, match=r"2\.png") as caught:
        list(Batches(data, 3, workers=workers).epoch(0))
    assert "\n" not in str(caught.value) and "Traceback" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 4, "pad": 32}, "pad"),
        ({"batch_size": 11, "world_size": 2}, "2 process"),
    ],
)
def test_impossible_settings_are_refused(settings, named):
    with pytest.raises(AibError, match=f"^[^,]*{named}"):
        Batches(in_memory(20), train=True, **settings)
