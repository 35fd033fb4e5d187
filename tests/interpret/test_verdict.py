"""The rules of the verdict, one by one, and models that are known to be what they are."""

from dataclasses import replace

import pytest
import torch

from aib.config.validation import parse_json
from aib.data import Batches
from aib.errors import AibError, AibWarning
from aib.interpret import Estimate, Plan, judge, study
from aib.interpret.measured import (
    Drop,
    Encoding,
    EvaluatorResults,
    Followed,
    KeptCurve,
    Reliance,
    Transplant,
)  # fmt: skip
from aib.interpret.measures.evaluator import kept_curves
from aib.interpret.results import Study
from tests.interpret import planted


def drop(value: float, reach: float = 0.5) -> Drop:
    """In points."""
    return Drop(0.9, value / 100, (value - reach) / 100, (value + reach) / 100)


def estimate(value: float, reach: float = 0.02) -> Estimate:
    return Estimate(value, value - reach, value + reach)


def reliance(mean=0.0, shuffled=0.0, another=0.0, **options) -> Reliance:
    drops = {"mean": drop(mean), "shuffled": drop(shuffled), "another": drop(another)}
    return Reliance(1000, 0.9, drops, 0.01, 0.1, **options)


def encoding(same=0.0, other=0.0, **options) -> Encoding:
    values = {
        "swaps": {"same_class": drop(same), "other_class": drop(other)},
        "left_out": {"same_class": 0, "other_class": 0},
        "follows": estimate(0.05),
        "follows_chance": 0.1,
        "blank": estimate(0.1),
        "probe": {"map": estimate(0.2), "centre": estimate(0.1), "mask": estimate(0.2)},
        "probe_chance": 0.1,
        "probe_images": 500,
        "variation": 0.2,
    }
    return Encoding(**values | options)


def judged(centre=None, random=None, kept=90.0) -> EvaluatorResults:
    """An evaluator that by default prefers the map to both controls."""
    kept = {} if kept is None else {0.3: estimate(kept, 1)}
    over = {"over_centre": centre or estimate(5.0, 1), "over_random": random or estimate(9.0, 1)}
    curve = KeptCurve({}, Estimate(50.0), **over, kept=kept)
    return EvaluatorResults("evaluator", 90.0, {"own": curve})


BETTER = judged()


def transplanted(pixels=0.9, map=0.05, chance=0.06, own=0.95, foreign=0.92) -> Transplant:
    shares = (estimate(value) for value in (pixels, map, chance, own, foreign))
    return Transplant(Followed(500, 10, *shares))


CLEARED, OPEN = transplanted(), transplanted(pixels=0.5)
TOO_FEW = Transplant(Followed(40, 400))
FOLLOWS = {"follows": estimate(0.6)}
LEAK = {"probe": {"map": estimate(0.6), "centre": estimate(0.1), "mask": estimate(0.2)}}


@pytest.mark.parametrize(
    ("name", "found", "parts", "transplant", "evaluator", "reason"),
    [
        ("decorative", reliance(), encoding(), CLEARED, BETTER, "less than 1 point"),
        ("undecided", reliance(another=1.3), encoding(), CLEARED, BETTER, "1000 images cannot"),
        # Whatever was not measured limits the verdict.
        ("used", reliance(another=5), None, CLEARED, BETTER, "was not tested"),
        ("used", reliance(another=5), encoding(5, 5), None, BETTER, "objects was not"),
        ("used", reliance(another=5), encoding(5, 5), TOO_FEW, BETTER, "Only 40 pairs"),
        ("used", reliance(another=5), encoding(5, 5), CLEARED, None, "at most"),
        ("faithful", reliance(another=5), encoding(5, 5), CLEARED, BETTER, "follows the pixels"),
        # A mean or shuffled map may only be strange: other images' maps have to cost accuracy, too.
        ("used", reliance(50, 50), encoding(), CLEARED, BETTER, "not another image"),
        ("used", reliance(50, 50, another=1.3), encoding(1.3, 1.3), CLEARED, BETTER, "not another"),
        ("faithful", reliance(50, 50), encoding(0, 5), CLEARED, BETTER, "never saw it"),
        # The evaluator: any advantage beyond its interval is evidence.
        ("faithful", reliance(another=5), encoding(5, 5), CLEARED,
         judged(centre=estimate(0.4, 0.3)), "never saw it"),
        ("used", reliance(another=5), encoding(5, 5), CLEARED,
         judged(centre=estimate(-1, 2)), "is not shown to find more"),
        ("used", reliance(another=5), encoding(5, 5), CLEARED,
         judged(centre=estimate(-5, 1)), "finds less evidence there than in centre"),
        ("used", reliance(another=5), encoding(5, 5), CLEARED,
         judged(random=Estimate()), "than in random pixels"),
        ("used", reliance(another=5), encoding(5, 5), CLEARED,
         judged(kept=70.0), "keep 70.0%"),
        ("faithful", reliance(another=5, masked=True), encoding(5, 5), CLEARED,
         judged(kept=None), "never saw it"),
        # Encoding (i): another class's map costs, the same class's much less, and a sign.
        ("encoding", reliance(another=5), encoding(0.5, 6, follows=estimate(0.25)), OPEN, BETTER,
         "follow"),
        ("encoding", reliance(another=5), encoding(0.5, 6, follows=estimate(0.25)), None, None,
         "follow"),
        ("faithful", reliance(another=5), encoding(0.5, 6, follows=estimate(0.25)), CLEARED, BETTER,
         "follows the pixels"),
        ("encoding", reliance(another=5),
         encoding(0.5, 6, follows=estimate(0.8), follows_chance=0.5), None, None, "follow"),
        ("used", reliance(another=5),
         encoding(0.5, 6, follows=estimate(0.76), follows_chance=0.5), None, None, "at most"),
        ("used", reliance(another=5), encoding(2, 6, follows=estimate(0.19)), None, None,
         "at most"),
        # Without masks of the objects a Gaussian is what the probe has to beat.
        ("encoding", reliance(another=5),
         encoding(0.5, 6, probe={"map": estimate(0.2), "centre": estimate(0.1)}), None, None,
         "Gaussian"),
        ("used", reliance(another=5),
         encoding(5, 5, probe={"map": estimate(0.2), "centre": estimate(0.1)}), None, None,
         "at most"),
        # Encoding (ii): under the transplant the decision follows the map.
        ("encoding", reliance(another=5), encoding(5, 5), transplanted(0.3, 0.6), BETTER,
         "60.0% of the predictions follow the map"),
        ("used", reliance(another=5), encoding(5, 5), transplanted(0.5, 0.4), BETTER,
         "does not show that"),
        # Encoding (iii): the map tells more than the outline of the object does.
        ("encoding", reliance(another=5), encoding(5, 5, **LEAK), OPEN, BETTER, "from the map"),
        ("faithful", reliance(another=5), encoding(5, 5, **LEAK), CLEARED, BETTER, "the pixels"),
        # Masked models: mean and shuffled maps are outside of what the classifier was trained on.
        ("decorative", reliance(50, 50, masked=True), encoding(), None, None, "less than 1 point"),
        ("used", reliance(50, 50), encoding(), None, None, "more than 1 point"),
        ("decorative", reliance(another=1.3, masked=True), encoding(variation=0.001), None, BETTER,
         "the same map for every image"),
        ("undecided", reliance(another=1.3), encoding(variation=0.001), None, None, "cannot tell"),
        # It takes a point for another class, and less than half of that for the same.
        ("used", reliance(another=5),
         encoding(swaps={"same_class": drop(0.1, 0.1), "other_class": drop(0.9, 0.2)}, **FOLLOWS),
         None, None, "at most"),
        ("encoding", reliance(another=5), encoding(2.5, 6, **FOLLOWS), None, None,
         "costs 6.00 points, one of the same class 2.50"),
        # Overlapping intervals do not show that a map encodes.
        ("used", reliance(another=5),
         encoding(swaps={"same_class": drop(2, 3), "other_class": drop(6, 3)}, **FOLLOWS), None,
         None, "at most"),
        # Small differences that cost accuracy are used: a single open pixel, or a steep mask.
        ("used", reliance(another=5, masked=True), encoding(5, 5, variation=0.001), CLEARED, None,
         "at most"),
    ],
)  # fmt: skip
def test_the_verdict_and_its_reason(name, found, parts, transplant, evaluator, reason):
    verdict = judge(found, parts, transplant, evaluator)
    assert verdict.name == name
    assert any(reason in sentence for sentence in verdict.reasons), verdict.reasons
    assert all(sentence in verdict.text for sentence in verdict.reasons)
    assert bool(verdict.warning) == (name in ("decorative", "encoding"))


@pytest.mark.parametrize(
    "values, cleared",
    [
        ({}, True),
        ({"map": 0.12}, True),  # 0.1 at least, and chance is 0.06
        ({"map": 0.14}, False),
        # Above chance: 60% of 0.86 are 0.516, half of 0.89 are 0.445, half of 0.94 are 0.47.
        ({"pixels": 0.57}, False),
        ({"pixels": 0.58}, True),
        ({"foreign": 0.5, "pixels": 0.5}, False),
        ({"foreign": 0.51, "pixels": 0.5}, True),
        ({"own": 0.52, "foreign": 0.5, "pixels": 0.5}, False),
        ({"own": 0.54, "foreign": 0.5, "pixels": 0.5}, True),
        # One of two classes: both are followed by chance alone.
        ({"pixels": 0.5, "foreign": 0.5, "map": 0.5, "chance": 0.5}, False),
        ({"pixels": 0.9, "map": 0.1, "chance": 0.1}, True),
    ],
)
def test_the_transplant_clears_a_map_by_its_conditions(values, cleared):
    found = transplanted(**values)
    assert found.cleared == cleared
    few = replace(found.boxes, skipped=found.boxes.pairs + 1)
    assert not Transplant(few).cleared, "most images were left out"
    cut_out = Followed(400, 0, estimate(0.5), chance=estimate(0.06), foreign_map=estimate(0.9))
    for value in (0.05, 0.3):
        both = Transplant(found.boxes, replace(cut_out, map=estimate(value)))
        assert both.cleared == (cleared and value < 0.1)
        assert both.encoded == found.encoded, "half of the pixels are followed"
    assert not Transplant(Followed(99, 40)).cleared


def test_two_classes_whose_map_is_followed_are_encoded():
    """There the class of an unrelated image, other than B's, is always A's."""
    assert transplanted(pixels=0.05, map=0.95, chance=0.95).encoded
    assert not transplanted(pixels=0.5, map=0.5, chance=0.5, foreign=0.5).encoded


def test_an_evaluator_that_guesses_does_not_judge():
    """A map that a trained one finds faithful is not blamed for it."""
    evaluator = planted.evaluator()
    torch.nn.init.zeros_(evaluator.head.weight)  # it names the first class
    plan = Plan({}, subset=20, evaluator=evaluator, evaluator_name="runs/new")
    with pytest.warns(AibWarning, match="runs/new cannot judge maps: .* whole images") as found:
        results = study(planted.Selector(), planted.feed(120), plan)
    share = f"{results.evaluator.accuracy:.1f}%"
    assert share in str(found[0].message)
    assert results.verdict.name == "used"
    assert f"The evaluator could not judge the map: it gets {share} of" in results.verdict.text
    assert "is not shown to find more evidence" not in results.verdict.text
    assert parse_json(Study, results.to_dict(), "a study").verdict == results.verdict


@pytest.mark.parametrize(("count", "name"), [(9, "used"), (10, "faithful")])
def test_a_few_images_make_no_map_faithful(count, name):
    """However few they are: if all of them prefer the map, so do all resamples."""
    right = torch.ones(count, 5, dtype=torch.bool)
    curve = kept_curves({"own": right, "random": ~right, "centre": ~right})["own"]
    assert curve.over_centre.value == 100
    over = judged(curve.over_centre, curve.over_random)
    found = judge(reliance(another=5), encoding(5, 5), CLEARED, over)
    assert found.name == name
    assert ("is not shown to find more evidence" in found.text) == (name == "used")


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_every_image_tells_whether_the_map_is_applied(precision):
    """Also where few images do, and none of the first batch."""
    images = planted.glyph_images(300)
    last = images.preprocessing.normalise(images.images[-6:])

    class Rarely(planted.Selector):
        def decide(self, x, sampling, given):
            out = super().decide(x, sampling, given)
            if given.attention_map is not None:
                return out
            few = (x[:, None] == last).flatten(2).all(2).any(1)[:, None]  # [B,1]
            logits = out.sample_logits
            return replace(out, sample_logits=torch.where(few, logits.roll(1, -1), logits))

    plan = Plan({}, precision=precision)
    study(planted.Selector(), Batches(images, 100), plan, expensive=False)
    with pytest.raises(AibError, match="does not apply the map that it shows: .* of 6 of 300 imag"):
        study(Rarely(), Batches(images, 100), plan, expensive=False)


def test_without_an_evaluator_an_honest_map_is_used():
    found = study(planted.Selector(False), planted.feed(300), Plan({}), expensive=False)
    assert found.verdict.name == "used" and "No evaluator was used" in found.verdict.text


@pytest.mark.parametrize("another", [0.0, 0.8])
@pytest.mark.parametrize(("accuracy", "enough"), [(0.145, False), (0.155, True)])
def test_five_points_above_guessing_are_enough_to_lose(accuracy, enough, another):
    """10% is guessing, for the model and for the evaluator. More images would not help."""
    verdict = judge(replace(reliance(another=another), accuracy=accuracy), encoding())
    assert ("Guessing gives 10.0%" in verdict.text) != enough
    assert verdict.name == ("decorative" if enough and not another else "undecided")
    same = encoding(variation=0.001)  # nearly one map for all images
    verdict = judge(replace(reliance(another=another, masked=True), accuracy=accuracy), same)
    assert verdict.name == ("decorative" if enough else "undecided")
    weakness = EvaluatorResults("run", 100 * accuracy, {}, 10.0).weakness
    assert (weakness is None) == enough
