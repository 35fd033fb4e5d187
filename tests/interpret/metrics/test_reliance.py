import pytest
import torch

from aib.data import Batch
from aib.interpret import map_encoding, map_reliance, swap_maps
from aib.interpret.decision_tables import reliance as reliance_table
from aib.interpret.metrics.reliance import paired_drop, points
from aib.interpret.results import Information, Study


def quadrant_task(count: int, batch: int = 100):
    """Four classes: which quadrant of the 4x4 image is bright."""
    y = torch.randint(4, (count,), generator=torch.Generator().manual_seed(0))
    x = torch.zeros(count, 1, 4, 4)
    for label in range(4):
        row, column = 2 * (label // 2), 2 * (label % 2)
        x[y == label, :, row : row + 2, column : column + 2] = 1
    return [Batch(i, x[i], y[i]) for i in torch.arange(count).split(batch)]


def attend(x):
    return x[:, 0]


def by_the_map(x, attention):
    """Reads the class off the map alone: the map is everything."""
    a = attend(x) if attention is None else attention
    return torch.nn.functional.avg_pool2d(a[:, None], 2).flatten(1)


def by_the_image(x, attention):
    """Never looks at the map."""
    return torch.nn.functional.avg_pool2d(x, 2).flatten(1)


def reliance_of(predict, count: int):
    return map_reliance(swap_maps(predict, attend, lambda: quadrant_task(count)))


def test_a_map_that_carries_the_class_costs_what_it_carries():
    found = reliance_of(by_the_map, 1000)
    assert found.images == 1000 and found.accuracy == 1 and found.chance == 0.25
    # Without the map it is a guess among four.
    assert found.replaced["another"].accuracy == pytest.approx(0.25, abs=0.05)
    assert found.replaced["mean"].drop > 0.6


def test_a_map_that_is_never_looked_at_costs_nothing():
    found = reliance_of(by_the_image, 1000)
    assert all(d.drop == 0 and d.low < 0 < d.high for d in found.replaced.values())


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


@pytest.mark.parametrize(
    ("share", "written"), [(0.0099, "0.99"), (-0.00001, "0.00"), (-0.0215, "-2.15"), (0.5, "50.00")]
)
def test_points_are_written_finely_enough_to_tell_the_sides_of_one_point(share, written):
    assert points(share) == written


def test_the_table_has_a_row_for_each_model_with_a_map():
    decisions = swap_maps(by_the_map, attend, lambda: quadrant_task(100))
    asked = map_reliance(decisions)
    studies = {
        label: Study("model", 100, 50.0, {}, found, Information(), encoding)
        for label, found, encoding in (
            ("own", asked, map_encoding(decisions)),
            ("older", asked, None),
            ("plain", "no map to replace", None),
        )
    }
    row, older = reliance_table(studies).rows
    mean, _, another = (asked.replaced[name] for name in ("mean", "shuffled", "another"))
    assert row[:2] == ("own", "100.00") and (row[-1], older[-1]) == ("encoding", "used")
    assert row[2] == f"{points(mean.drop)} ({points(mean.low)} to {points(mean.high)})"
    assert row[4].startswith(f"{100 * another.drop:.2f} (")
