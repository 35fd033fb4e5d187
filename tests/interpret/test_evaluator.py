"""An evaluator judges maps: brute force, refusals, command; verdicts are in test_verdict.py."""

import json
from itertools import pairwise
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch

from aib.cli import main
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError
from aib.interpret import Plan, study
from aib.interpret.measure import Context
from aib.interpret.measures.evaluator import SHARES, EvaluatorMeasure, kept_curves
from aib.models.baselines.evaluator import check_evaluator
from tests.helpers import eval_model, make_run, photo, shapes
from tests.interpret import planted
from tests.interpret.planted import SIDE, evaluator, glyph_images

COUNT = 40
FEW = ["--data", "shapes:count=32", "--foreign", "shapes:count=32"]
DATA = glyph_images(COUNT)
X = DATA.preprocessing.normalise(DATA.images)


def judge_of(evaluator):
    return EvaluatorMeasure(Context(planted.Random(), frozenset(), evaluator=evaluator))


def view(rows, maps):
    """What a measure sees of a batch."""
    decided = Mock(prediction=DATA.labels[rows])
    batch = Mock(labels=DATA.labels[rows])
    return SimpleNamespace(x=X[rows], batch=batch, maps={"own": maps}, explanation=decided)


def test_accuracy_and_area_equal_those_of_a_brute_force():
    """With distinct values the best pixels are known."""
    torch.manual_seed(0)
    maps = torch.rand(COUNT, SIDE, SIDE)
    used = evaluator().train()  # its mode is restored
    judge = judge_of(used)
    for rows in torch.arange(COUNT).split(25):
        judge.update(view(rows, maps[rows]))
    assert used.training
    curve = judge.fields()["evaluator"].maps["own"]
    by_share = []
    for share in SHARES:
        right = 0
        for one, x, label in zip(maps, X, DATA.labels, strict=True):
            ranked = sorted(range(SIDE * SIDE), key=one.flatten().tolist().__getitem__)
            mask = torch.zeros(SIDE * SIDE)
            mask[ranked[-round(share * SIDE * SIDE) :]] = 1
            out = used.eval()(x[None], deterministic=True, mask=mask.view(1, SIDE, SIDE))
            right += int(out.logits.argmax() == label)
        by_share.append(100 * right / COUNT)
    assert [curve.accuracy[share].value for share in SHARES] == pytest.approx(by_share)
    assert 25 < by_share[0] < by_share[-1] <= 100
    steps = zip(pairwise(SHARES), pairwise(by_share), strict=True)
    area = sum((s1 - s0) * (a0 + a1) / 2 for (s0, s1), (a0, a1) in steps) / 0.45
    assert curve.area.value == pytest.approx(area)


def test_differences_are_bootstrapped_in_pairs():
    generator = torch.Generator().manual_seed(1)
    shared = torch.rand(60, 1, generator=generator)  # some images are easy for every map
    correct = {
        kind: torch.rand(60, 5, generator=generator) < (0.2 * gain + 0.8 * shared)
        for kind, gain in (("own", 1.0), ("random", 0.2), ("centre", 0.6))
    }
    curves = kept_curves(correct, seed=3)
    assert curves["random"].over_random is curves["centre"].over_centre is None
    found = curves["own"]
    widths = torch.tensor([0.05, 0.1, 0.1, 0.2], dtype=torch.float64)

    def area(kind):
        right = 100 * correct[kind].double()
        return ((right[:, 1:] + right[:, :-1]) / 2 * widths).sum(1) / 0.45

    picks = torch.randint(60, (1000, 60), generator=torch.Generator().manual_seed(3))
    for control, estimate in (("random", found.over_random), ("centre", found.over_centre)):
        resampled = area("own")[picks].mean(1) - area(control)[picks].mean(1)
        ends = resampled.quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
        assert [estimate.low, estimate.high] == pytest.approx(ends)
        assert estimate.value == pytest.approx(float(area("own").mean() - area(control).mean()))


def test_an_evaluator_for_other_images_is_refused_in_a_sentence():
    data = shapes(2)
    model = eval_model("tiny", data)
    other = eval_model("tiny_evaluator", data)
    check_evaluator(other, model)
    with pytest.raises(AibError, match="not trained on random masks"):
        check_evaluator(eval_model("tiny_aib_masked", data), model)
    own = data.preprocessing
    for changes, said in (
        ({"class_names": own.class_names[::-1]}, "class_names is"),
        ({"image_size": 48}, "image_size is 48, and 32"),
        ({"resize": "crop"}, "resize is 'crop', and 'squash'"),
        ({"std": (0.1, 0.1, 0.1)}, "std is"),
    ):
        other.preprocessing = Preprocessing(
            **{"class_names": own.class_names, "mean": own.mean, "std": own.std} | changes
        )
        with pytest.raises(AibError, match=said):
            check_evaluator(other, model)
    with pytest.raises(AibError, match="num_classes is 4"):
        study(model, data, Plan({}, evaluator=evaluator()))
    with pytest.raises(AibError, match="expensive measures"):
        study(model, data, Plan({}, evaluator=eval_model("tiny_evaluator", data)), expensive=False)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    names = {"model": "tiny_aib", "evaluator": "tiny_evaluator", "plain": "tiny"}
    return {key: make_run(folder / key, name) for key, name in names.items()}


@pytest.mark.filterwarnings("ignore:.* cannot judge maps")  # it is not trained
def test_interpret_asks_the_run_of_an_evaluator(runs):
    words = ["interpret", str(runs["model"]), "--images", "12", "--subset", "10", *FEW]
    assert main([*words, "--evaluator", str(runs["evaluator"])]) == 0
    found = json.loads((runs["model"] / "interpret.json").read_text())["evaluator"]
    assert found["run"] == str(runs["evaluator"])
    curve = found["maps"]["random"]
    assert set(curve["accuracy"]) == {"0.05", "0.1", "0.2", "0.3", "0.5"}
    assert all("low" in curve[name] for name in ("area", "over_centre"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--evaluator", "{plain}"], "was not trained on random masks"),
        (["--evaluator", "nowhere"], "nowhere is not a run"),
        (["--evaluator", "{evaluator}", "--quick"], "leave out one of them"),
    ],
)
def test_mistakes_with_an_evaluator_are_answered_in_a_sentence(runs, words, said, capsys):
    shared = ["interpret", str(runs["model"]), "--images", "12", *FEW, "--overwrite"]
    assert main([*shared, *(word.format(**runs) for word in words)]) == 2
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error


def test_an_evaluator_must_have_held_out_the_images_that_it_judges_on(tmp_path, capsys):
    photos = tmp_path / "photos" / shapes(2).class_names[0]
    photos.mkdir(parents=True)
    for i in range(4):
        photo(seed=i).save(photos / f"{i}.png")
    own = {"data": f"folder:{photos.parent}", "holdout": 0.5}  # no test images
    run = make_run(tmp_path / "run", "tiny_aib", **own)
    judge = make_run(tmp_path / "judge", "tiny_evaluator", seed=1, **own)
    assert main(["interpret", str(run), "--evaluator", str(judge), "--foreign", "shapes"]) == 2
    assert "judge and run held out different images" in capsys.readouterr().err
