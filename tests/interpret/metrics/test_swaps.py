"""Swaps within and between classes, predictions that follow the map, and the map-only probe."""

from dataclasses import replace

import pytest
import torch

from aib.interpret.measures.swaps import map_encoding, map_reliance
from aib.interpret.metrics.probe import jittered_gaussian, probe
from aib.interpret.metrics.swap import Decisions, Partners, draw_partners, paired_drop


def random_decisions(count: int = 60, seed: int = 0, classes: int = 4) -> Decisions:
    """Decisions that follow the map now and then; class 0 is the most frequent."""
    rng = torch.Generator().manual_seed(seed)
    own = torch.randint(classes, (2, count), generator=rng).amin(0)
    partners = draw_partners(torch.arange(count), own, seed=seed)
    coin = torch.rand(count, generator=rng)
    other = torch.where(coin < 0.3, own[partners.other_class], own)
    other = torch.where(coin > 0.8, torch.randint(classes, (count,), generator=rng), other)
    names = ("mean", "shuffled", "another", "same_class", "blank")
    under = {name: torch.randint(classes, (count,), generator=rng) for name in names}
    return Decisions(
        labels=torch.where(coin < 0.9, own, 1),
        index=torch.arange(count),
        maps=torch.rand(count, 4, 4, generator=rng),
        objects=None,
        own=own,
        under=under | {"other_class": other},
        partners=partners,
        num_classes=classes,
        changed=torch.zeros(count, dtype=torch.bool),
    )


@pytest.mark.parametrize("seed", range(3))
def test_shares_and_drops_agree_with_counting_image_by_image(seed):
    d = random_decisions(seed=seed)
    found = map_encoding(d)
    followed, expected, lost = 0, 0.0, 0
    for i in range(60):
        before, after = int(d.own[i]), int(d.under["other_class"][i])
        followed += after == int(d.own[d.partners.other_class[i]])
        shown = d.own[d.partners.other_class]
        expected += float((shown == after).double().mean())  # under the map of any image
        lost += (before == d.labels[i]).item() - (after == d.labels[i]).item()
    assert found.follows.value == pytest.approx(followed / 60)
    assert found.follows_chance == pytest.approx(max(0.25, expected / 60))
    assert found.swaps["other_class"].drop == pytest.approx(lost / 60)
    assert found.blank.value == pytest.approx(float((d.under["blank"] == d.labels).double().mean()))
    each = [(d.maps[i] - d.maps[d.partners.another[i]]).abs().mean() for i in range(60)]
    assert found.variation == pytest.approx(float(torch.stack(each).mean()), abs=1e-6)
    reliance = map_reliance(d)
    assert reliance.accuracy == pytest.approx(float((d.own == d.labels).double().mean()))
    for name, drop in reliance.replaced.items():
        assert drop.accuracy == pytest.approx(float((d.under[name] == d.labels).double().mean()))


def test_guessing_names_the_most_frequent_class():
    """With 19 of 20 images of one class, a model right on 19 has lost nothing that it had."""
    d = random_decisions(20)
    labels = torch.tensor([0] * 19 + [3])
    assert map_reliance(replace(d, labels=labels)).chance == 19 / 20
    assert map_reliance(replace(d, labels=torch.arange(20) % 4)).chance == 1 / 4


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_predictions_that_always_follow_the_map_do_so_above_chance(classes):
    d = random_decisions(classes=classes)
    own = torch.arange(60) % classes
    partners = draw_partners(d.index, own)
    under = d.under | {"other_class": own[partners.other_class]}
    found = map_encoding(replace(d, own=own, under=under, partners=partners))
    assert found.follows.value == 1
    assert found.follows_chance == pytest.approx(1 / classes, abs=0.05)


def test_images_without_a_partner_are_left_out_and_counted():
    d = random_decisions()
    lonely = d.partners.same_class.clone()
    lonely[:20] = -1
    found = map_encoding(
        Decisions(**vars(d) | {"partners": d.partners._replace(same_class=lonely)})
    )
    right, swapped = (d.right()[20:], d.right("same_class")[20:])
    assert found.left_out == {"same_class": 20, "other_class": 0}
    drop = float(right.double().mean() - swapped.double().mean())
    assert found.swaps["same_class"].drop == pytest.approx(drop)
    none = Partners(d.partners.another, *(torch.full_like(lonely, -1) for _ in range(2)))
    nobody = map_encoding(replace(d, partners=none))
    assert nobody.swaps == {} and nobody.follows.value is None


LABELS = torch.arange(400) % 4


def written(strength: float) -> torch.Tensor:
    """Noise, and the class in one of four corners."""
    maps = torch.rand(400, 8, 8, generator=torch.Generator().manual_seed(0))
    for label, (row, column) in enumerate(((0, 0), (0, 4), (4, 0), (4, 4))):
        maps[label::4, row : row + 4, column : column + 4] += strength
    return maps


def accuracy(maps, **options) -> float:
    said, truth = probe(maps, LABELS, torch.arange(400), 4, **options)
    assert len(said) == 200
    return float((said == truth).double().mean())


def test_the_probe_reads_a_class_that_the_map_holds_and_no_other():
    assert accuracy(written(1.0)) > 0.95
    assert accuracy(written(0.0)) < 0.4
    assert accuracy(0.5 + 1e-3 * written(1.0)) > 0.95  # faint, and there all the same


def test_the_probe_changes_no_random_numbers_and_repeats_itself():
    state = torch.get_rng_state()
    with torch.no_grad():
        first, truth = probe(written(0.2), LABELS, torch.arange(400), 4, seed=5)
    assert torch.equal(state, torch.get_rng_state())
    torch.manual_seed(1)
    again, same = probe(written(0.2), LABELS, torch.arange(400), 4, seed=5)
    assert torch.equal(first, again) and torch.equal(truth, same)
    torch.set_rng_state(state)


def test_the_control_of_the_probe_is_a_gaussian_near_the_centre():
    maps = jittered_gaussian(torch.arange(500), (16, 12), seed=1)
    assert maps.shape == (500, 16, 12)
    peaks = maps.flatten(1).argmax(1)
    rows, columns = peaks // 12, peaks % 12
    # Two rows and two columns of 16 and 12: an eighth of the side; an even side has two centres.
    assert set(rows.tolist()) == set(range(5, 10)) and set(columns.tolist()) == set(range(3, 8))
    assert torch.equal(maps[7:9], jittered_gaussian(torch.tensor([7, 8]), (16, 12), seed=1))


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
