"""Objects under the maps of other images: boxes, resampling, and models that cheat."""

import json
import math

import pytest
import torch
import torch.nn.functional as F

from aib.config.validation import parse_json
from aib.interpret import Study, judge
from aib.interpret.measure import Context, run_measures
from aib.interpret.measures import transplant
from aib.interpret.measures.evaluator import EvaluatorMeasure
from aib.interpret.measures.transplant import (
    TransplantMeasure,
    fits,
    mask_boxes,
    mass_boxes,
    place,
)
from tests.interpret import planted
from tests.interpret.planted import PLANTS


def slow_mass_box(map: torch.Tensor, share: float = 0.8) -> float:
    """The area of the smallest box with this share of the mass, by trying all."""
    height, width = map.shape
    areas = [
        (b - t) * (r - x)
        for t in range(height)
        for b in range(t + 1, height + 1)
        for x in range(width)
        for r in range(x + 1, width + 1)
        if map[t:b, x:r].sum() >= share * map.sum() - 1e-9
    ]
    return min(areas) / (height * width)


def test_boxes_hold_what_they_should():
    masks = torch.zeros(3, 4, 8)
    masks[0, 1:3, 2:7] = 0.5
    masks[1, 3, 0] = 1.0
    masks[1, 0, 0] = 0.49
    boxes = mask_boxes(masks)
    assert boxes[0].tolist() == [0.25, 0.25, 0.875, 0.75]
    assert boxes[1].tolist() == [0.0, 0.75, 0.125, 1.0] and bool(boxes[2].isnan().all())
    assert torch.equal(mask_boxes(0.1 * masks[:2]), boxes[:2]), "faint masks have boxes, too"
    maps = torch.rand(6, 5, 6, generator=torch.Generator().manual_seed(0)) ** 4
    for map, box in zip(maps.double(), mass_boxes(maps), strict=True):
        left, top, right, bottom = box.tolist()
        assert (right - left) * (bottom - top) == pytest.approx(slow_mass_box(map))
        rows, columns = (slice(round(n * a), round(n * b)) for n, a, b in
                         ((5, top, bottom), (6, left, right)))  # fmt: skip
        assert map[rows, columns].sum() >= 0.8 * map.sum() - 1e-9
    assert bool(mass_boxes(torch.zeros(1, 3, 3)).isnan().all())


def test_an_object_lands_in_the_box_and_noise_comes_from_beyond_the_frame():
    x = torch.zeros(1, 1, 8, 8)
    x[0, 0, 2:4, 4:6] = 1
    source = torch.tensor([[4, 2, 6, 4]]) / 8
    for target in ([0, 0, 2, 2], [2, 3, 6, 7], [4, 4, 8, 6]):
        left, top, right, bottom = target
        moved = place(x, source, torch.tensor([target]) / 8, torch.full_like(x, 9.0))
        inside = moved[0, 0, top:bottom, left:right]
        # Bilinear: pixels at the rim of an enlarged object mix with its surroundings.
        assert inside.mean() > 0.7 and bool((inside > 0.2).all())
        outside = moved.clone()
        outside[0, 0, max(top - 1, 0) : bottom + 1, max(left - 1, 0) : right + 1] = 0
        assert bool(((outside == 0) | (outside == 9)).all())
    same = place(x, source, source, torch.full_like(x, 9.0))
    assert torch.allclose(same, x, atol=1e-6)
    # Moved to the left by half the frame, the right half comes from beyond it.
    moved = place(x, torch.tensor([[0.5, 0, 1, 1]]), torch.tensor([[0.0, 0, 0.5, 1]]), x + 9)
    assert bool((moved[..., 4:] >= 9).all()) and bool((moved[..., :4] < 9).all())


def test_scales_beyond_a_factor_of_two_do_not_fit():
    source = torch.tensor([[0.0, 0, 0.4, 0.4]]).expand(4, 4)
    target = torch.tensor([
        [0.1, 0.1, 0.9, 0.9], [0, 0, 0.81, 0.4], [0, 0, 0.2, 0.2], [0, 0, math.nan, 1]
    ])  # fmt: skip
    assert fits(source.double(), target.double()).tolist() == [True, False, True, False]


def measured(model, batch_size: int = 60) -> TransplantMeasure:
    """A measure that has seen 60 images and their masks."""
    context = Context(model.eval(), frozenset({"outlines"}), batch_size=batch_size)
    found = TransplantMeasure(context)
    with torch.no_grad():
        run_measures(context, [found], planted.feed(60, batch_size=batch_size))
    return found


@pytest.mark.parametrize("masked", [True, False])
def test_a_transplant_does_not_depend_on_the_batch_size(monkeypatch, masked):
    """Neither its results nor the noise beyond the frame, which is drawn by image."""
    monkeypatch.setattr(transplant, "ENOUGH", 20)
    selector = planted.Selector(masked)
    measures = [measured(planted.as_masked(selector) if masked else selector, n) for n in (60, 7)]
    results = [one.fields()["transplant"] for one in measures]
    assert results[0] == results[1] and len(results[0].forms) == 2
    a, b = torch.arange(30), torch.arange(30, 60)
    boxes = torch.rand(60, 4, generator=torch.Generator().manual_seed(0)).double() / 4
    boxes[:, 2:] += 0.6
    together = measures[0]._resampled(boxes, a, b, b)
    split = zip(*(one.split(7) for one in (a, b, b)), strict=True)
    parts = [measures[1]._resampled(boxes, *part) for part in split]
    assert torch.allclose(together, torch.cat(parts), atol=1e-6)
    assert not torch.equal(together[0], together[1])


def test_a_cut_object_lies_in_the_other_s_box_on_a_third_background():
    measure = measured(planted.as_masked(planted.Selector()))
    stored, (a, b, d) = measure.stored, (torch.arange(k, 60, 3) for k in range(3))
    objects = stored["objects"] == 1
    x = measure._composed(mask_boxes(objects.float()), a, b, d)
    pixels = measure._pixels(torch.arange(60))
    for image, i, j, k in zip(x, a, b, d, strict=True):
        # All objects are of one size: nothing is resampled.
        assert torch.allclose(image[:, objects[i]], pixels[j][:, objects[j]], atol=1e-5)
        left = ~objects[i] & (F.max_pool2d(objects[k][None].float(), 3, 1, 1)[0] == 0)
        assert torch.allclose(image[:, left], pixels[k][:, left], atol=1e-5)
        assert bool((image[:, ~objects[i]].abs() < 0.2).all()), (
            "of the third object nothing is left"
        )


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", PLANTS)
def test_planted_models_get_the_verdict_they_deserve(name, seed):
    verdict = judge(**PLANTS[name].measured(seed))
    assert verdict.name in PLANTS[name].may, verdict.text


def test_a_whole_study_finds_a_code_in_the_place_of_the_object_inside_its_box():
    """Only with the object cut out: a resampled box keeps the place."""
    found = PLANTS["relative shift"].study(0)
    assert found.accuracy > 90, "the cheat works"
    boxes, cut = found.transplant.forms.values()
    assert boxes.pixels.value > 0.9 and cut.map.value > 0.9
    assert found.verdict.name == "encoding" and "follow the map and 0.0%" in found.verdict.text
    [table] = TransplantMeasure.tables({"run": found})
    assert [row[1] for row in table.rows] == ["boxes of the maps", "objects cut out"]
    again = parse_json(Study, json.loads(json.dumps(found.to_dict())), "a study")
    assert again.transplant == found.transplant and again.verdict == found.verdict


def test_a_whole_study_clears_an_honest_map_whose_place_tells_the_class():
    found = PLANTS["position by class"].study(0)
    assert found.encoding.probe["map"].value > 0.8, "the map alone tells the class"
    assert found.transplant.cleared and not found.transplant.encoded
    own = found.evaluator.maps["own"]
    assert own.area.value == 100 and own.over_random.low > 10 and own.over_centre.low > 3
    assert {own.kept[share].value for share in (0.1, 0.2, 0.3)} == {100}
    assert found.verdict.name == "faithful"
    [table] = EvaluatorMeasure.tables({"run": found})
    shown = dict(zip(table.head, table.rows[0], strict=True))["kept at 10 / 20 / 30 %"]
    assert shown.startswith("100.0 / 100.0 / 100.0 (")
