"""mixup, CutMix and smoothed labels: what they do to images and labels."""

import pytest
import torch
from torch import Tensor

from aib.data import Batches
from aib.data.mix import Mix, paste
from tests.helpers import image_set, images

CLASSES = 4
Y = torch.tensor([0, 1, 2, 3, 1, 3])


def share_of(labels: Tensor, y: Tensor) -> float:
    """The share that the first image keeps, where its label is not its partner's."""
    return float(labels[0, y[0]])


def mixed(mix: Mix, step: int = 0, epoch: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    x = images(6, 16, 24)
    return x, *mix(x.clone(), Y, epoch, step)


def mixed_labels(share: float) -> Tensor:
    labels = torch.zeros(6, CLASSES)
    for i in range(6):
        labels[i, Y[i]] += share
        labels[i, Y[5 - i]] += 1 - share
    return labels


def test_mixup_blends_images_and_labels_with_one_share() -> None:
    x, z, labels = mixed(Mix(CLASSES, mixup=1.0))
    share = share_of(labels, Y)
    assert 0 < share < 1
    for i in range(6):
        torch.testing.assert_close(z[i], share * x[i] + (1 - share) * x[5 - i])
    torch.testing.assert_close(labels, mixed_labels(share))


def test_cutmix_pastes_one_rectangle_and_labels_have_the_share_of_its_area() -> None:
    seen = set()
    for step in range(20):
        x, z, labels = mixed(Mix(CLASSES, cutmix=1.0), step)
        pasted = (z != x).any(0).any(0)  # [H,W]
        rows, columns = pasted.any(1), pasted.any(0)
        assert torch.equal(pasted, rows[:, None] & columns)
        for found in (rows, columns):  # without a gap
            assert int(found.int().diff().abs().sum()) <= 2
        assert torch.equal(z, torch.where(pasted, x.flip(0), x))
        share = 1 - float(pasted.float().mean())
        torch.testing.assert_close(labels, mixed_labels(share))
        seen.add(round(share, 3))
    assert len(seen) > 10


@pytest.mark.parametrize(
    ("centre", "rows", "columns"),
    [
        ((0.5, 0.5), (4, 12), (6, 18)),  # of 8 x 12 pixels
        ((0.0, 0.0), (0, 4), (0, 6)),
        ((0.25, 0.75), (0, 8), (12, 24)),
    ],
)
def test_a_rectangle_in_the_middle_or_cut_off_at_a_corner(centre, rows, columns) -> None:
    x = torch.stack([torch.zeros(3, 16, 24), torch.ones(3, 16, 24)])
    z, kept = paste(x, 0.75, *centre)
    expected = torch.zeros(16, 24)
    expected[slice(*rows), slice(*columns)] = 1
    assert torch.equal(z[0], expected.expand(3, 16, 24))
    assert kept == 1 - float(expected.mean())


def test_the_share_has_the_distribution_beta() -> None:
    alpha = 0.2
    mix, x, y = Mix(2, mixup=alpha), torch.zeros(2, 3, 1, 1), torch.tensor([0, 1])
    shares = torch.tensor([share_of(mix(x, y, 0, step)[1], y) for step in range(2000)])
    variance = 1 / (4 * (2 * alpha + 1))
    assert float(shares.mean()) == pytest.approx(0.5, abs=4 * (variance / 2000) ** 0.5)
    assert float(shares.var()) == pytest.approx(variance, rel=0.15)


def test_with_both_each_batch_is_one_of_them() -> None:
    cut = 0
    for step in range(40):
        x, z, _ = mixed(Mix(CLASSES, mixup=1.0, cutmix=1.0), step)
        cut += bool(((z == x) | (z == x.flip(0))).all())
    assert 10 < cut < 30
    # Each has its own alpha: with this one a rectangle is all or nothing, a blend never is.
    own = (mixed(Mix(CLASSES, mixup=50.0, cutmix=0.001), step) for step in range(40))
    assert 3 < sum(torch.equal(z, x) for x, z, _ in own) < 20


def test_a_batch_depends_on_seed_epoch_and_step_alone() -> None:
    shares = {
        share_of(mixed(Mix(CLASSES, mixup=1.0, seed=seed), step, epoch)[2], Y)
        for seed in (0, 1)
        for epoch in (0, 1)
        for step in (0, 1)
    }
    assert len(shares) == 8
    mix, data = Mix(CLASSES, mixup=0.4, cutmix=0.4, seed=3), Batches(image_set(48), 8, train=True)
    whole = list(mix.batches(data.epoch(2), 2))
    resumed = list(mix.batches(data.epoch(2, start=4), 2, 4))
    for (x, y), (z, labels) in zip(whole[4:], resumed, strict=True):
        assert torch.equal(x, z) and torch.equal(y, labels)


def test_smoothed_labels_leave_the_images_alone() -> None:
    x, z, labels = mixed(Mix(CLASSES, label_smoothing=0.2))
    assert torch.equal(x, z)
    expected = torch.full((6, CLASSES), 0.05)
    expected[torch.arange(6), Y] = 0.85
    torch.testing.assert_close(labels, expected)


def test_without_settings_nothing_changes() -> None:
    x, z, labels = mixed(Mix(CLASSES))
    assert torch.equal(x, z) and labels is Y
