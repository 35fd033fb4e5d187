"""TrivialAugment against Pillow's own operations, and where it is applied."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from aib.data import Batches, ImageSet, load
from aib.data.augment import EpochPlan
from aib.data.decode import to_tensor
from aib.data.trivial_augment import BINS, OPERATIONS, TrivialAugment
from tests.data import official
from tests.helpers import image_set, pixels

ENHANCERS = {
    "brightness": ImageEnhance.Brightness,
    "color": ImageEnhance.Color,
    "contrast": ImageEnhance.Contrast,
    "sharpness": ImageEnhance.Sharpness,
}


def reference(image: Image.Image, name: str, level: int, sign: int) -> Image.Image:
    """The operation as in the published code, with strengths from its table of the wide space."""

    share = sign * level / 30
    matrices = {
        "shear_x": (1, 0.99 * share, 0, 0, 1, 0),
        "shear_y": (1, 0, 0, 0.99 * share, 1, 0),
        "translate_x": (1, 0, int(32 * share), 0, 1, 0),
        "translate_y": (1, 0, 0, 0, 1, int(32 * share)),
    }
    if name in matrices:
        return image.transform(image.size, Image.Transform.AFFINE, matrices[name])
    if name == "rotate":
        return image.rotate(135 * share)
    if name in ENHANCERS:
        return ENHANCERS[name](image).enhance(1 + 0.99 * share)
    if name == "posterize":
        return ImageOps.posterize(image, 8 - round(level / 5))
    if name == "solarize":
        return ImageOps.solarize(image, 255 - 8.5 * level)
    if name in ("autocontrast", "equalize"):
        return getattr(ImageOps, name)(image)
    return image


def numbers(name: str, level: int, sign: int) -> Tensor:
    """A row of an epoch's random numbers that chooses this operation."""
    row = torch.full((10,), 0.5)
    row[7] = (OPERATIONS.index(name) + 0.5) / len(OPERATIONS)
    row[8] = (level + 0.5) / BINS
    row[9] = 0.25 if sign < 0 else 0.75
    return row


def pictures(height: int, width: int) -> list[Image.Image]:
    """Noise; a dim picture with few values; one colour."""
    noise = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    dim = 40 + 30 * (np.indices((height, width)).sum(0) // 5 % 3)[..., None] + [0, 9, 77]
    plain = np.full((height, width, 3), (200, 0, 90))
    return [Image.fromarray(values.astype(np.uint8)) for values in (noise, dim, plain)]


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("size", [(32, 32), (24, 41)])
def test_an_operation_is_that_of_pillow(name: str, size: tuple[int, int]) -> None:
    cases = [(p, k, s) for p in pictures(*size) for k in range(BINS) for s in (1, -1)]
    wanted = torch.stack([to_tensor(reference(p, name, k, s)) for p, k, s in cases])
    batch = torch.stack([to_tensor(p) for p, _, _ in cases])
    uniform = torch.stack([numbers(name, k, s) for _, k, s in cases])
    found = TrivialAugment(*size)(batch, uniform)
    assert found.dtype == torch.uint8
    if name in ENHANCERS:  # a processor that fuses a b + c may truncate another value
        difference = (found.int() - wanted.int()).abs()
        assert difference.max() <= 1 and (difference > 0).float().mean() < 1e-3
    else:
        assert torch.equal(found, wanted)
    assert (found != batch).any() or name == "identity"


def test_a_batch_with_all_operations_is_one_image_after_another() -> None:
    """Also as a GPU computes it: every group for the whole batch."""
    plan = EpochPlan.sample(300, seed=0, epoch=0)
    augment, images = TrivialAugment(32, 32), pixels(300)
    together = augment(images, plan.uniform)
    alone = [augment(images[i : i + 1], plan.uniform[i : i + 1]) for i in range(300)]
    assert torch.equal(together, torch.cat(alone))
    operation = (plan.uniform[:, 7] * 14).long()
    level = (plan.uniform[:, 8] * 31).long() + 31 * (plan.uniform[:, 9] < 0.5)
    everything = images
    for group in (augment.move, augment.blend, augment.replace):
        everything = group(everything, operation, level)
    assert torch.equal(everything, together)
    assert torch.equal(images, pixels(300))  # the input is not overwritten


def test_images_in_memory_and_in_files_are_augmented_after_their_crop(tmp_path) -> None:
    folder = official.write_folder(tmp_path, side=80)
    on_disk = load(f"folder:{folder}:image_size=72", "train", holdout=0)
    for data, workers in ((image_set(12), 0), (on_disk, 1)):
        size = data.preprocessing.image_size
        plain = Batches(data, len(data), train=True, seed=1)
        augmented = Batches(
            data, len(data), train=True, seed=1, trivial_augment=True, workers=workers
        )
        plan = EpochPlan.sample(len(data), seed=1, epoch=2)
        [(batch, _)] = plain._load(2, 0, objects=False)
        expected = TrivialAugment(size, size)(batch.images, plan.uniform)
        [(x, y)] = augmented.epoch(2)
        assert torch.equal(x, data.preprocessing.normalise(expected))
        assert torch.equal(y, batch.labels)
        assert not torch.equal(expected, batch.images)


def test_alternating_flips_are_random_once_and_then_change_with_every_epoch() -> None:
    images = torch.zeros(40, 3, 8, 8, dtype=torch.uint8)
    images[:, 0, :, :4] = 255  # red on the left, mirrored red on the right
    data = ImageSet.from_tensors(images, torch.arange(40))

    def mirrored(epoch: int, size: int = 8, seed: int = 4, **options) -> dict[int, bool]:
        batches = Batches(data, size, train=True, seed=seed, pad=0, **options)
        x, y = (torch.cat(part) for part in zip(*batches.epoch(epoch), strict=True))
        return dict(zip(y.tolist(), (x[:, 0, 0, 0] < x[:, 0, 0, -1]).tolist(), strict=True))

    on = {"alternate_flip": True}
    epochs = [mirrored(epoch, **on) for epoch in range(4)]
    assert epochs[0] == mirrored(0) and 8 < sum(epochs[0].values()) < 32
    assert epochs[0] == epochs[2] and epochs[1] == epochs[3]
    assert all(epochs[0][i] != epochs[1][i] for i in range(40))
    ranks = [mirrored(3, 4, rank=rank, world_size=2, **on) for rank in range(2)]
    assert ranks[0] | ranks[1] == epochs[3]
    assert not any(any(mirrored(epoch, flip=False, **on).values()) for epoch in (0, 1))
    assert mirrored(0, seed=5, **on) != epochs[0]
