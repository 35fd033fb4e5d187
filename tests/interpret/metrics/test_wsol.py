"""MaxBoxAccV2, PxAP, mask IoU, F-measure and MAE, against loops in plain Python."""

import pytest
import torch

from aib.interpret import Localisation, boxes_to_objects
from aib.interpret.metrics.wsol import IOUS, STEPS, average_precision, box_ious
from tests.interpret.metrics.test_components import box, flood_fill, flood_fills

CUTS = [i / STEPS for i in range(STEPS)]


def cases(count: int = 12, size: tuple[int, int] = (6, 9)) -> tuple[torch.Tensor, torch.Tensor]:
    """Maps with ties, and masks with ignored pixels."""
    generator = torch.Generator().manual_seed(1)
    maps = (torch.rand(count, *size, generator=generator) * 8).round() / 8
    corners = torch.rand(count, 4, generator=generator) * 4
    corners[:, 2:] += corners[:, :2] + 1
    objects = boxes_to_objects(corners, size).to(torch.uint8)
    maps += 0.5 * objects
    objects[torch.rand(count, *size, generator=generator) < 0.1] = 255
    return maps, objects


def scored(one: torch.Tensor, mask: torch.Tensor) -> list[tuple[float, int]]:
    """The scaled score and the mask of each pixel that counts."""
    values = scaled(one).double().flatten().tolist()
    return [(s, y) for s, y in zip(values, mask.flatten().tolist(), strict=True) if y != 255]


def scaled(one: torch.Tensor) -> torch.Tensor:
    low, high = one.min(), one.max()
    return (one - low) / (high - low) if high > low else torch.zeros_like(one)


def overlap(first: list[float], second: list[float]) -> float:
    """IoU of two boxes."""
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    shared = max(width, 0) * max(height, 0)
    areas = [(b[2] - b[0]) * (b[3] - b[1]) for b in (first, second)]
    return shared / (sum(areas) - shared)


def slow_box_ious(one: torch.Tensor, truth: list[float]) -> list[float]:
    """Of the component that fits best, at each threshold."""
    return [
        max(overlap(box(part), truth) for part in flood_fills(scaled(one).double() > cut))
        for cut in CUTS
    ]


def best_shares(boxes: list[list[float]]) -> list[float]:
    """The share of right boxes at the best threshold, for each of IOUS."""
    return [
        max(sum(ious[cut] >= least for ious in boxes) / len(boxes) for cut in range(STEPS))
        for least in IOUS
    ]


def slow_mask_ious(one: torch.Tensor, mask: torch.Tensor, cuts=(*CUTS, 1.0)) -> list[float]:
    ious = []
    for cut in cuts:
        both = sum(y == 1 and score >= cut for score, y in scored(one, mask))
        either = sum(y == 1 or score >= cut for score, y in scored(one, mask))
        ious.append(both / either)
    return ious


def slow_f(one: torch.Tensor, mask: torch.Tensor) -> list[float]:
    """From precision and recall, at each threshold."""
    values, pairs = [], scored(one, mask)
    for cut in (*CUTS, 1.0):
        right = [y for score, y in pairs if score >= cut]
        precision, recall = sum(right) / max(len(right), 1), sum(right) / sum(y for _, y in pairs)
        both = 0.3 * precision + recall
        values.append(1.3 * precision * recall / both if both else 0.0)
    return values


def slow_mae(one: torch.Tensor, mask: torch.Tensor) -> float:
    pairs = scored(one, mask)
    return sum(abs(score - y) for score, y in pairs) / len(pairs)


def slow_pxap(maps: torch.Tensor, objects: torch.Tensor) -> float:
    """Precision times the recall gained at each threshold, from the highest to the lowest."""
    everything = [
        pair for one, mask in zip(maps, objects, strict=True) for pair in scored(one, mask)
    ]
    total, area, last = sum(y for _, y in everything), 0.0, 0.0
    for cut in [1.0, *CUTS[::-1]]:
        found = [y for score, y in everything if score >= cut]
        if found:
            area += sum(found) / len(found) * (sum(found) / total - last)
            last = sum(found) / total
    return area


def test_every_score_is_that_of_plain_loops():
    maps, objects = cases()
    metric = Localisation()
    metric.update(maps[:5], objects[:5])
    metric.update(maps[5:], objects[5:])
    found = metric.compute()
    truths = [box((mask == 1).nonzero().tolist()) for mask in objects]
    pairs = list(zip(maps, truths, strict=True))
    best = best_shares([slow_box_ious(*pair) for pair in pairs])
    assert 0 < best[2] < best[0]  # the cases tell the IoUs apart
    assert found.max_box_acc.value == pytest.approx(sum(best) / 3)
    largest = best_shares(
        [[overlap(flood_fill(scaled(m).double() > cut), t) for cut in CUTS] for m, t in pairs]
    )
    assert sum(largest) < sum(best)  # the published definition takes the box of any component
    assert [found.max_box_acc_at[least].value for least in IOUS] == pytest.approx(best)
    masked = [slow_mask_ious(one, mask) for one, mask in zip(maps, objects, strict=True)]
    mean = [sum(column) / len(masked) for column in zip(*masked, strict=True)]
    assert found.mask_iou.value == pytest.approx(max(mean))
    assert found.pxap.value == pytest.approx(slow_pxap(maps, objects))
    curves = [slow_f(one, mask) for one, mask in zip(maps, objects, strict=True)]
    assert found.max_f.value == pytest.approx(max(map(sum, zip(*curves, strict=True))) / 12)
    errors = [slow_mae(one, mask) for one, mask in zip(maps, objects, strict=True)]
    assert found.mae.value == pytest.approx(sum(errors) / 12)
    for name in ("max_box_acc", "mask_iou", "pxap", "max_f", "mae"):
        one = getattr(found, name)
        assert one.low < one.value < one.high


def test_a_score_at_the_threshold_itself_is_found():
    """PxAP cuts at score >= threshold, boxes at score > threshold."""
    metric = Localisation()
    map, mask = torch.zeros(1, 4, 4), torch.zeros(1, 4, 4, dtype=torch.bool)
    map[0, 0, 0], map[0, 0, 1], map[0, 0, 2] = 1.0, 0.5, 0.49
    mask[0, 0, :2] = True
    metric.update(map, mask)
    # At 0.5 both object pixels are found and nothing else: all the recall, at full precision.
    assert metric.compute().pxap.value == metric.compute().mask_iou.value == 1
    top = Localisation()
    mask[0, 0, 1] = False
    top.update(map, mask)  # only the threshold 1 finds the object alone, by equality
    assert top.compute().pxap.value == 1
    inside = torch.zeros(2 * (STEPS + 1))
    inside[STEPS] = inside[-1] = 1  # one object and one other pixel, both of score 1
    assert float(average_precision(inside)) == 0.5


def test_a_flat_map_has_no_box_and_all_pixels():
    mask = boxes_to_objects(torch.tensor([[2.0, 1, 7, 5]]), (8, 8))
    flat = Localisation()
    flat.update(torch.full((1, 3, 3), 0.7), mask)
    found = flat.compute()
    assert found.max_box_acc.value == 0
    assert found.pxap.value == found.mask_iou.value == found.mae.value == 20 / 64


def test_boxes_beyond_the_image_are_clipped_and_the_best_of_several_counts():
    whole = torch.zeros(1, 4, 6)
    whole[0, :, 3:] = 1.0  # the right half
    nothing = [float("nan")] * 4
    overrun = torch.tensor([[[3.0, -2.0, 9.0, 8.0], nothing]])
    assert box_ious(whole, overrun).unique().tolist() == [1.0]
    several = torch.tensor([[[0.0, 0.0, 1.0, 1.0], [3.0, 0.0, 6.0, 2.0]]])
    assert box_ious(whole, several).unique().tolist() == [0.5]
    metric = Localisation()
    metric.update(whole, whole.bool(), several)
    assert metric.compute().max_box_acc.value == pytest.approx(2 / 3)


def test_an_iou_of_exactly_the_limit_is_right():
    maps = torch.zeros(3, 10, 10)
    for one, rows in zip(maps, (3, 5, 7), strict=True):
        one[:rows] = 1.0  # IoU 0.3, 0.5 and 0.7 with the whole image
    metric = Localisation()
    metric.update(maps, torch.ones(3, 10, 10, dtype=torch.bool))
    found = metric.compute().max_box_acc_at
    assert [found[least].value for least in IOUS] == pytest.approx([1, 2 / 3, 1 / 3])


def test_images_without_an_object_are_counted_and_left_out():
    maps, objects = cases(6)
    some, all_ = Localisation(), Localisation()
    some.update(maps[1:], objects[1:])
    objects[0] = 0
    all_.update(maps, objects)
    assert all_.compute().max_box_acc.undefined == 1
    for name in ("max_box_acc", "pxap", "mask_iou", "max_f"):
        found, expected = (getattr(one.compute(), name) for one in (all_, some))
        assert found.value == pytest.approx(expected.value)


def test_given_boxes_are_scored_in_place_of_the_masks_and_need_none():
    """Boxes that are not those of the masks; one image has no mask, another one no box."""
    maps, objects = cases(8)
    boxes = torch.tensor([[1.0, 1.0, 4.5, 5.0]]).repeat(8, 1)
    objects[0], boxes[1] = 255, torch.tensor([3.0, 2.0, 3.0, 9.0])
    metric = Localisation()
    metric.update(maps, objects, boxes)
    found = metric.compute()
    rows = [slow_box_ious(maps[i], boxes[i].tolist()) for i in range(8) if i != 1]
    assert found.max_box_acc.value == pytest.approx(sum(best_shares(rows)) / 3)
    assert found.max_box_acc.undefined == 1
    drawn = [slow_mask_ious(maps[i], objects[i]) for i in range(1, 8)]
    assert found.mask_iou.value == pytest.approx(
        max(sum(column) / 7 for column in zip(*drawn, strict=True))
    )
    assert found.pxap.value == pytest.approx(slow_pxap(maps[1:], objects[1:]))


def test_filled_boxes_have_no_scores_of_masks():
    maps, objects = cases(4)
    metric = Localisation(outlines=False)
    metric.update(maps, objects)
    found = metric.compute()
    assert found.max_box_acc is not None and found.pxap is found.max_f is found.mae is None
