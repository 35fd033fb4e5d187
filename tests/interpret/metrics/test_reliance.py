import pytest
import torch

from aib.errors import AibError
from aib.interpret import from_another, map_reliance, shuffled, spatial_mean
from aib.interpret.metrics.reliance import paired_drop, points, verdict
from aib.interpret.results import Information, Study
from aib.interpret.tables import reliance as reliance_table


def quadrant_task(count: int, batch: int = 100):
    """Four classes: which quadrant of the 4x4 image is bright."""
    y = torch.randint(4, (count,), generator=torch.Generator().manual_seed(0))
    x = torch.zeros(count, 1, 4, 4)
    for label in range(4):
        row, column = 2 * (label // 2), 2 * (label % 2)
        x[y == label, :, row : row + 2, column : column + 2] = 1
    return list(zip(x.split(batch), y.split(batch), strict=True))


def attend(x):
    return x[:, 0]


def by_the_map(x, attention):
    """Reads the class off the map alone: the map is everything."""
    a = attend(x) if attention is None else attention
    return torch.nn.functional.avg_pool2d(a[:, None], 2).flatten(1)


def by_the_image(x, attention):
    """Never looks at the map."""
    return torch.nn.functional.avg_pool2d(x, 2).flatten(1)


def test_a_map_that_carries_the_class_is_used():
    reliance = map_reliance(by_the_map, attend, quadrant_task(1000))
    assert reliance.verdict == "used" and reliance.accuracy == 1
    # Without the map it is a guess among four.
    assert reliance.replaced["another"].accuracy == pytest.approx(0.25, abs=0.05)
    assert reliance.replaced["mean"].drop > 0.6
    assert reliance.text.startswith("The decision uses the map")


def test_a_map_that_is_never_looked_at_is_decorative():
    reliance = map_reliance(by_the_image, attend, quadrant_task(1000))
    assert reliance.verdict == "decorative"
    assert all(d.drop == 0 and d.low < 0 < d.high for d in reliance.replaced.values())
    assert "decorative" in reliance.text and "1 point of accuracy" in reliance.text


def test_a_model_that_guesses_has_nothing_to_lose():
    """Its decision is the map's alone, and no replacement can make it worse."""
    labels = torch.randint(4, (4000,), generator=torch.Generator().manual_seed(1)).split(100)
    guesses = [(x, y) for (x, _), y in zip(quadrant_task(4000), labels, strict=True)]
    reliance = map_reliance(by_the_map, attend, guesses, harm=0.05)
    assert abs(reliance.accuracy - 0.25) < 0.05 and reliance.chance == 0.25
    assert verdict(reliance.replaced, harm=0.05) == "decorative"  # by the drops alone
    assert reliance.verdict == "undecided" and "guessing at 25.0%" in reliance.text


def test_few_images_leave_it_undecided():
    reliance = map_reliance(by_the_image, attend, quadrant_task(20))
    assert reliance.verdict == "undecided" and "20 images" in reliance.text


def test_a_last_batch_of_one_image_takes_the_map_before_it():
    reliance = map_reliance(by_the_map, attend, quadrant_task(101))
    assert reliance.images == 101


def test_replacements_do_what_they_say():
    maps = torch.rand(6, 5, 4, generator=torch.Generator().manual_seed(0))
    index = torch.arange(6)
    torch.testing.assert_close(spatial_mean(maps).mean((1, 2)), maps.mean((1, 2)))
    assert float(spatial_mean(maps).std(dim=(1, 2)).max()) < 1e-6
    mixed = shuffled(maps, index, seed=1)
    assert torch.equal(mixed.flatten(1).sort().values, maps.flatten(1).sort().values)
    assert not torch.equal(mixed, maps)
    assert torch.equal(mixed[2:4], shuffled(maps[2:4], index[2:4], seed=1))
    other = from_another(maps, index, seed=1)
    source = (other[:, None] == maps[None]).flatten(2).all(2).nonzero()[:, 1]
    assert sorted(source.tolist()) == list(range(6)) and (source != index).all()


@pytest.mark.parametrize("count", [2, 3, 17])
def test_no_image_keeps_its_own_map(count):
    maps = torch.arange(count).float()[:, None, None].expand(count, 2, 2)
    for seed in range(20):
        assert (from_another(maps, torch.arange(count), seed=seed) != maps).all()


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


def test_the_verdict_needs_the_whole_interval():
    def drops(lost, gained):
        return {"another": paired_drop(0.9, lost, gained, 1000)}

    assert verdict(drops(100, 0)) == "used"
    assert verdict(drops(15, 5)) == "undecided"
    assert verdict(drops(0, 0)) == "decorative"
    assert verdict(drops(0, 100)) == "decorative"  # better without it: no harm


@pytest.mark.parametrize(
    ("share", "written"), [(0.0099, "0.99"), (-0.00001, "0.00"), (-0.0215, "-2.15"), (0.5, "50.00")]
)
def test_points_are_written_finely_enough_to_tell_the_sides_of_one_point(share, written):
    assert points(share) == written


def test_bad_input_is_named():
    with pytest.raises(AibError, match="at least 2 images"):
        from_another(torch.rand(1, 2, 2), torch.arange(1))
    with pytest.raises(AibError, match="batches is empty"):
        map_reliance(by_the_map, attend, [])
    with pytest.raises(AibError, match=r"\[100,classes\], not \[100\]"):
        map_reliance(lambda x, a: x.mean((1, 2, 3)), attend, quadrant_task(100))


def test_the_table_has_a_row_for_each_model_with_a_map():
    asked = map_reliance(by_the_map, attend, quadrant_task(100))
    studies = {
        label: Study("model", 100, 50.0, {}, found, Information())
        for label, found in (("own", asked), ("plain", "no map to replace"))
    }
    [row] = reliance_table(studies).rows
    mean, _, another = (asked.replaced[name] for name in ("mean", "shuffled", "another"))
    assert row[:2] == ("own", "100.00") and row[-1] == "used"
    assert row[2] == f"{points(mean.drop)} ({points(mean.low)} to {points(mean.high)})"
    assert row[4].startswith(f"{100 * another.drop:.2f} (")
