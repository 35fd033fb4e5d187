"""Which image lends its map to which, and what is decided under it."""

from dataclasses import replace

import pytest
import torch

from aib.data import Batch
from aib.errors import AibError
from aib.interpret.measures.swaps import map_reliance
from aib.interpret.metrics.swap import (
    Swapping,
    covered,
    draw_partners,
    shuffled,
    spatial_mean,
)  # fmt: skip

CLASSES = torch.tensor([2, 0, 2, 5, 0, 2, 0, 0])  # class 5 has one image
INDEX = torch.tensor([3, 4, 8, 11, 12, 20, 21, 30])


def candidates(i: int, relation: str) -> list[int]:
    """By going through all pairs."""
    same = [j for j in range(len(CLASSES)) if j != i and CLASSES[j] == CLASSES[i]]
    other = [j for j in range(len(CLASSES)) if CLASSES[j] != CLASSES[i]]
    return {"same_class": same, "other_class": other, "another": sorted(same + other)}[relation]


@pytest.mark.parametrize("relation", ["another", "same_class", "other_class"])
def test_partners_are_drawn_evenly_from_all_images_that_qualify(relation):
    seeds = 2000
    drawn = torch.stack(
        [getattr(draw_partners(INDEX, CLASSES, seed=seed), relation) for seed in range(seeds)]
    )  # [seeds,N]
    for i in range(len(CLASSES)):
        allowed = candidates(i, relation)
        assert sorted(set(drawn[:, i].tolist())) == (allowed or [-1])
        if allowed:
            shares = drawn[:, i].bincount(minlength=len(CLASSES))[allowed] / seeds
            assert (shares - 1 / len(allowed)).abs().max() < 0.05


def test_replacements_do_what_they_say():
    maps = torch.rand(6, 5, 4, generator=torch.Generator().manual_seed(0))
    index = torch.arange(6)
    torch.testing.assert_close(spatial_mean(maps).mean((1, 2)), maps.mean((1, 2)))
    assert float(spatial_mean(maps).std(dim=(1, 2)).max()) < 1e-6
    mixed = shuffled(maps, index, seed=1)
    assert torch.equal(mixed.flatten(1).sort().values, maps.flatten(1).sort().values)
    assert not torch.equal(mixed, maps)
    assert torch.equal(mixed[2:4], shuffled(maps[2:4], index[2:4], seed=1))


def attend(x):
    """The map [B,2,2] spells the image's number in binary."""
    bits = (x[:, 0, 0, 0].long()[:, None] >> torch.arange(4)) & 1
    return bits.float().view(-1, 2, 2)


def predict(x, given):
    """The number that the map spells, as the class; a third of the image's number without one."""
    if given is None:
        return torch.nn.functional.one_hot(x[:, 0, 0, 0].long() // 3, 16).float()
    value = (given.flatten(1).round() * 2 ** torch.arange(4)).sum(1).long()
    return torch.nn.functional.one_hot(value, 16).float()


def numbered(batch_size: int, objects: bool = False):
    """Images whose pixels are their number, 1 to 8."""
    number = torch.arange(1, 9)
    x = number.float().view(-1, 1, 1, 1).expand(-1, 3, 4, 4)
    half = torch.zeros(8, 4, 4, dtype=torch.bool)
    half[:, :, :2] = True
    return [
        Batch(INDEX[rows], x[rows], number[rows], half[rows] if objects else None)
        for rows in torch.arange(8).split(batch_size)
    ]


def swapped(predict, batches, attend=attend, seed=0):
    """Both passes over the same batches."""
    swapping = Swapping(predict, seed=seed)
    for batch in batches:
        own = predict(batch.images, None).float().softmax(1)
        swapping.first(batch, batch.images, attend(batch.images), own)
    for batch in batches:
        swapping.second(batch, batch.images)
    return swapping.decisions()


@pytest.mark.parametrize("batch_size", [1, 3, 8])
def test_each_image_is_decided_under_the_map_of_its_partner(batch_size):
    """By brute force: the class under a swapped map is the partner's number."""
    number = torch.arange(1, 9)
    found = swapped(predict, numbered(batch_size), seed=3)
    assert found.num_classes == 16 and torch.equal(found.own, number // 3)
    partners = draw_partners(INDEX, number // 3, seed=3)
    for name, partner in partners._asdict().items():
        has = partner >= 0
        assert torch.equal(found.under[name][has], number[partner[has]])
        assert torch.equal(getattr(found.partners, name), partner)
    assert torch.equal(found.under["blank"], number)  # the image's own map on a blank image
    assert found.right("blank").all() and found.objects is None


def test_ignored_pixels_are_left_out_of_the_averaged_masks():
    generator = torch.Generator().manual_seed(0)
    objects = torch.tensor([0, 1, 255], dtype=torch.uint8)[
        torch.randint(3, (3, 4, 6), generator=generator)
    ]
    objects[0, :2, :3] = 255  # a position where no pixel counts
    found = covered(objects, (2, 2))
    for i, row, column in torch.cartesian_prod(torch.arange(3), torch.arange(2), torch.arange(2)):
        cell = objects[i, 2 * row : 2 * row + 2, 3 * column : 3 * column + 3].flatten().tolist()
        counted = [value for value in cell if value != 255]
        share = sum(counted) / len(counted) if counted else 0.0
        assert float(found[i, row, column]) == pytest.approx(share)
    objects[1] = 255
    assert covered(objects, (2, 2)) is None


def test_an_image_without_a_mask_leaves_the_probe_without_masks():
    batches = numbered(3, objects=True)
    found = swapped(predict, batches)
    assert torch.equal(found.objects, torch.tensor([1.0, 0.0]).expand(8, 2, 2))
    unknown = torch.full((3, 4, 4), 255, dtype=torch.uint8)
    batches[1] = replace(batches[1], objects=unknown)
    assert swapped(predict, batches).objects is None


def test_bad_input_is_named():
    with pytest.raises(AibError, match="at least 2 images"):
        swapped(predict, numbered(1)[:1])
    with pytest.raises(AibError, match="the maps of 8 images hold NaN"):
        swapped(predict, numbered(8), lambda x: attend(x) * torch.nan)


@pytest.mark.parametrize("nothing", [1, torch.nan])
def test_decisions_that_do_not_apply_the_map_are_not_judged(nothing):
    def decide(x, given):
        return 9 * predict(x, given) * (1 if given is None else nothing)

    decisions = swapped(decide, numbered(8))
    with pytest.raises(AibError, match="does not apply the map that it shows: .* of 8 of 8 images"):
        map_reliance(decisions)


def test_only_the_blank_decision_sees_nothing_of_the_image():
    def by_image(x, given):
        return torch.nn.functional.one_hot(x[:, 0, 0, 0].long(), 16)

    found = swapped(by_image, numbered(3))
    for name, decided in found.under.items():
        assert torch.equal(decided, torch.arange(1, 9) * (name != "blank"))
