import pytest
import torch

from aib.interpret.measured import points
from aib.interpret.metrics.reliance import paired_drop


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    # 8 of 100 images are lost and 2 gained on average: a drop of 6 points.
    generator = torch.Generator().manual_seed(0)
    held = 0
    for _ in range(400):
        u = torch.rand(300, generator=generator)
        lost, gained = int((u < 0.08).sum()), int((u > 0.98).sum())
        drop = paired_drop(0.9, lost, gained, 300)
        held += drop.low <= 0.06 <= drop.high
    assert 0.92 < held / 400 < 0.98


@pytest.mark.parametrize(("lost", "gained"), [(10, 0), (0, 10)])
def test_no_drop_exceeds_100_points(lost, gained):
    drop = paired_drop(float(lost > 0), lost, gained, 10)
    assert -1 <= drop.low <= drop.drop <= drop.high <= 1


@pytest.mark.parametrize(
    ("share", "written"), [(0.0099, "0.99"), (-0.00001, "0.00"), (-0.0215, "-2.15"), (0.5, "50.00")]
)
def test_points_are_written_finely_enough_to_tell_the_sides_of_one_point(share, written):
    assert points(share) == written
