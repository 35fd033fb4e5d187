"""Evaluation against counts by hand, and `aib eval`."""

import json
import math
import shutil
from dataclasses import replace

import pytest
import torch
from scipy.stats import binomtest

import aib
from aib.cli import main
from aib.data import ImageSet
from aib.data.batches import default_batch
from aib.data.preprocessing import Preprocessing
from aib.errors import AibError
from aib.evaluation.error import EvaluationMetrics, evaluate
from aib.evaluation.intervals import wilson_interval
from aib.evaluation.matching import match_classes
from aib.models.modes import passes_in
from aib.runs.run import open_run
from tests.data import official
from tests.helpers import image_set, make_run, shapes, small_model


def images(count: int = 30, names: tuple[str, ...] = tuple("abcdefgh")) -> ImageSet:
    return image_set(count, len(names), class_names=names)


def tiny(num_classes: int = 8, names: tuple[str, ...] = ()) -> aib.Classifier:
    return small_model(num_classes=num_classes, preprocessing=Preprocessing(class_names=names))


@pytest.mark.parametrize("batch_size", [7, 64])
def test_the_metrics_match_a_count_by_hand(batch_size: int):
    model, data = tiny().eval(), images()
    got = evaluate(model, data, deterministic=True, batch_size=batch_size)
    with torch.no_grad():
        out = model(data.preprocessing.normalise(data.images), deterministic=True)
    p = out.logits.double().softmax(-1)
    order = p.argsort(dim=-1, descending=True)
    wrong1 = sum(int(order[i, 0] != y) for i, y in enumerate(data.labels))
    wrong5 = sum(int(y not in order[i, :5]) for i, y in enumerate(data.labels))
    nll = -sum(math.log(p[i, y]) for i, y in enumerate(data.labels)) / 30
    mu, sigma = out.latent.mu.double(), out.latent.sigma.double()
    kl = (0.5 * (mu**2 + sigma**2 - 1) - sigma.log()).sum(-1).mean() / math.log(2)
    assert got.top1_error == pytest.approx(100 * wrong1 / 30)
    assert got.top5_error == pytest.approx(100 * wrong5 / 30)
    assert got.top1_interval == wilson_interval(wrong1, 30)
    assert got.top5_interval == wilson_interval(wrong5, 30)
    assert got.nll == pytest.approx(nll, rel=1e-5)
    assert got.kl_bits == pytest.approx(float(kl), rel=1e-5)
    assert got.images == 30


def test_the_calibration_error_is_its_definition():
    """In 15 bins of confidence: the gap to the share of right answers, weighted by images."""
    logits = 2 * torch.randn(300, 8)
    confidence, guess = logits.double().softmax(-1).max(-1)
    labels = (guess + (confidence * 15).long() % 2) % 8  # right in every other bin
    metrics = EvaluationMetrics(8, torch.device("cpu"))
    for part in torch.arange(300).split(70):
        metrics.add(logits[part], labels[part])
    bins = (confidence * 15).ceil()
    gaps = [
        (bins == b).double().mean()
        * abs(confidence[bins == b].mean() - (guess == labels)[bins == b].double().mean())
        for b in bins.unique()
    ]
    assert len(gaps) > 10
    assert metrics.compute()["calibration_error"] == pytest.approx(100 * float(sum(gaps)), rel=1e-4)
    for classes, top5_error in ((5, None), (6, 0.0)):
        metrics = EvaluationMetrics(classes, torch.device("cpu"))
        metrics.add(torch.zeros(1, classes), torch.tensor([0]))  # right by chance, alone in its bin
        found = metrics.compute()
        assert found["calibration_error"] == pytest.approx(100 - 100 / classes, rel=1e-5)
        assert found["top5_error"] == top5_error


def test_of_equal_probabilities_the_first_is_the_prediction():
    """As `argmax` takes it; `topk` may take any of them."""
    metrics = EvaluationMetrics(40, torch.device("cpu"))
    metrics.add(torch.zeros(40, 40), torch.arange(40))
    found = metrics.compute()
    assert (found["top1_error"], found["top5_error"]) == (97.5, 87.5)
    metrics.add(torch.zeros(40, 40), torch.zeros(40).long())
    assert metrics.compute()["top1_error"] == 48.75


def test_images_without_a_prediction_are_an_error():
    """A comparison with NaN names some class, and may be right by accident."""
    metrics = EvaluationMetrics(8, torch.device("cpu"))
    logits = torch.randn(6, 8)
    logits[2:4] = torch.nan
    metrics.add(logits, torch.arange(6))
    with pytest.raises(AibError, match="NaN for 2 of the 6 images"):
        metrics.compute()


def test_the_kl_is_averaged_over_the_attentions_samples():
    """Each sample of the map gives another latent; with much noise a very different one."""
    model, data = tiny().eval(), images()
    with torch.no_grad():
        model.attention.to_sigma.bias.fill_(6.0)
        model.head.encode.weight *= 30
    got = evaluate(model, data, samples=(3, 2), seed=4)
    torch.manual_seed(4)
    with torch.no_grad():
        latent = model(data.preprocessing.normalise(data.images), samples=(3, 2)).latent
    mu, sigma = latent.mu.double(), latent.sigma.double()
    bits = (0.5 * (mu**2 + sigma**2 - 1) - sigma.log()).sum(-1).mean(1) / math.log(2)  # [3]
    assert got.kl_bits == pytest.approx(float(bits.mean()), rel=1e-5)
    assert got.kl_bits != pytest.approx(float(bits[0]), rel=1e-3)


def test_the_noise_is_seeded_and_the_global_generator_left_alone():
    model, data = tiny(), images()
    torch.manual_seed(5)
    first = evaluate(model, data)
    after = torch.rand(1)
    again = evaluate(model, data)
    torch.manual_seed(5)
    assert torch.equal(after, torch.rand(1))
    assert first.nll == again.nll
    assert first.nll != evaluate(model, data, seed=1).nll
    assert first.samples == "4x12"
    assert evaluate(aib.create_model("tiny", num_classes=10), data).samples == "deterministic"
    released = evaluate(small_model(num_classes=8, profile="released"), data)
    assert (first.averaged, released.averaged) == ("probabilities", "logits")
    assert model.training


def test_only_the_passes_themselves_are_in_another_precision():
    layer, x = torch.nn.Linear(4, 3), torch.randn(2, 4)
    with passes_in("bf16", layer):
        assert layer(x).dtype == torch.bfloat16
        assert torch.matmul(x, x.T).dtype == torch.float32  # around a pass nothing changes
        with pytest.raises(TypeError):
            layer("a pass that fails")
        assert torch.matmul(x, x.T).dtype == torch.float32
    assert layer(x).dtype == torch.float32


@pytest.mark.parametrize("errors, count", [(0, 10), (3, 40), (410, 10_000), (7, 7)])
def test_wilsons_interval_is_that_of_scipy(errors: int, count: int):
    expected = binomtest(errors, count).proportion_ci(0.95, "wilson")
    ends = (100 * expected.low, 100 * expected.high)
    assert wilson_interval(errors, count) == pytest.approx(ends, abs=1e-5)
    assert wilson_interval(errors, count)[0] >= 0 and wilson_interval(errors, count)[1] <= 100


CIFAR = tuple("airplane automobile bird cat deer dog frog horse ship truck".split())
STL = tuple("airplane bird car cat deer dog horse monkey ship truck".split())


def test_classes_of_other_data_are_read_raw_and_matched_by_name():
    model, data = tiny(10, CIFAR), images(20, STL)
    raw, matched = (found for _, found in match_classes(model, data))
    assert torch.equal(raw.labels, data.labels)
    kept = [STL[y] for y in data.labels if STL[y] != "monkey"]
    assert [CIFAR[y].replace("automobile", "car") for y in matched.labels] == kept
    assert evaluate(model, matched, classes="matched").images == len(matched) == 18
    assert evaluate(model, data).classes == "matched"  # unless the caller asks for another
    assert [how for how, _ in match_classes(model, images(20, CIFAR))] == ["own"]


@pytest.mark.parametrize(
    ("model", "data", "message"),
    [
        (tiny(10, CIFAR), images(9, ("x", "y", "z")), "10 classes do not fit"),
        (tiny(3), images(), "the data has 8 classes and the model 3"),
    ],
)
def test_data_of_other_classes_is_an_error(model, data, message):
    with pytest.raises(AibError, match=message):
        evaluate(model, data)


@pytest.mark.parametrize(
    ("ours", "theirs", "labels"),
    [
        (CIFAR, ("dog", "cat", "zebra"), [5, 3]),  # the last is left out
        # another order: matched, not read raw
        (("square", "circle", "cross"), ("circle", "cross", "square"), [1, 2, 0]),
        # as in ImageNet: the same spelling decides, and a name that stands for two is not taken
        (
            ("Cardigan", "crane", "cardigan", "crane", "Great Dane"),
            ("cardigan", "crane", "Cardigan", "great_dane"),
            [2, 0, 4],
        ),
        (
            ("cardigan", "crane", "sock"),
            ("cardigan", "crane", "Cardigan", "great_dane", "sock"),
            [0, 1, 2],
        ),
    ],
)
def test_classes_are_matched_by_name(ours, theirs, labels):
    ((how, found),) = match_classes(tiny(len(ours), ours), images(len(theirs), theirs))
    assert how == "matched" and found.labels.tolist() == labels


def train(run, data, *options, model="tiny_aib_qt"):
    """The exit code of a short training."""
    words = f"--model {model} --width 0.25 --epochs 1 --batch-size 8 --accelerator cpu".split()
    return main(["train", "--data", data, *words, *options, "--out", str(run)])


def evaluated(capsys, *words):
    """What `aib eval` prints as JSON."""
    capsys.readouterr()
    assert main(["eval", *map(str, words), "--device", "cpu", "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)["evaluations"]
    return result


def test_the_command_evaluates_as_it_is_asked_to_and_stores_each_way_apart(tmp_path, capsys):
    model = small_model(preprocessing=shapes(2).preprocessing)
    model.head.encode.bias.data[32:] = 6.0  # make the noise matter
    run = make_run(tmp_path / "run", model=model, data="shapes:count=48")
    opened = open_run(run, "cpu")
    found = {}
    for words, asked in {
        "": {},
        "--deterministic": {"deterministic": True},
        "--samples 2x3": {"samples": (2, 3)},
        "--seed 7": {"seed": 7},
        "--precision bf16": {"precision": "bf16"},
    }.items():
        found[words] = evaluated(capsys, run, *words.split())["nll"]
        assert found[words] == evaluate(opened.model, opened.images(), **asked).nll
    assert len(set(found.values())) == len(found)
    stored = json.loads((run / "evaluation.json").read_text())
    assert len(stored) == len(found)
    assert {one["weights_sha256"] for one in stored.values()} == {opened.checksum}
    assert evaluated(capsys, run, "--split", "train")["split"] == "train"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("nowhere", "has no config.json"),
        ("model --data shapes:count=8 --device cuda:99", "device"),
        ("model --data shapes:count=8 --samples 0x3", "such as 4x12"),
        ("model --data shapes:count=8 --samples axb", "such as 4x12"),
    ],
)
def test_what_cannot_be_evaluated_is_an_error(words, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny(10).save_pretrained(tmp_path / "model")
    assert main(["eval", *words.split()]) == 2
    assert message in capsys.readouterr().err


def test_a_run_whose_images_moved_is_evaluated_on_those_it_held_out(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    photos, run = official.write_folder(tmp_path / "photos", per_class=10), tmp_path / "run"
    assert train(run, "folder:photos:image_size=32", "--seed", "1") == 0
    before = evaluated(capsys, run)
    held_out = json.loads((run / "split.json").read_text())["held_out"]
    assert len(held_out) == 6 and all((photos / name).is_file() for name in held_out)
    shutil.copy(photos / "class_0/0.png", photos / "class_0/10.png")  # the split does not change
    moved = f"folder:{photos.rename(tmp_path / 'moved')}"
    assert main(["eval", str(run)]) == 2
    assert "photos is no folder here" in capsys.readouterr().err
    after = evaluated(capsys, run, "--data", moved)
    assert (after["split"], after["images"], after["nll"]) == ("val", 6, before["nll"])
    assert len(open_run(run, "cpu").images(moved, "train")) == 25
    (tmp_path / "moved" / held_out[0]).unlink()
    assert main(["eval", str(run), "--data", moved]) == 2
    assert f"lacks 1 of the 6 held-out images, such as {held_out[0]}" in capsys.readouterr().err


def test_nearly_closed_masks_are_counted_and_warned_of():
    model, data = small_model("tiny_aib_masked", num_classes=8), images()
    score = model.propose.trunk.to_score
    torch.nn.init.zeros_(score.weight)
    torch.nn.init.constant_(score.bias, -9.0)  # closes every mask
    found = evaluate(model, data, deterministic=True)
    assert found.closed_share == 1 and found.area < 0.02
    assert "100% of the masks keep less than 2%" in found.warning
    assert replace(found, closed_share=0.05).warning is None
    assert evaluate(small_model("tiny_evaluator", num_classes=8), data).area is None  # makes none


@pytest.mark.parametrize(
    ("size", "samples", "batch"), [(32, 4, 128), (112, 4, 10), (224, 4, 2), (224, 1, 10)]
)
def test_a_cpu_evaluates_few_large_images_at_once(size, samples, batch):
    assert default_batch(torch.device("cpu"), size, samples) == batch
    assert default_batch(torch.device("cuda"), size, samples) == 256


def test_with_a_holdout_training_leaves_the_test_images_to_aib_eval(tmp_path, capsys):
    run = tmp_path / "my run"
    assert train(run, "shapes:count=50", "--holdout", "0.2") == 0
    assert "on the held-out images" in capsys.readouterr().out
    evaluations = json.loads((run / "evaluation.json").read_text())
    assert [(e["split"], e["images"]) for e in evaluations.values()] == [("val", 10)]
    own = evaluated(capsys, run)
    assert own["split"] == "test"
    evaluated(capsys, run, "--deterministic")
    evaluations = json.loads((run / "evaluation.json").read_text())
    named = aib.Settings(data="shapes:count=50", holdout=0.2).own_evaluation(evaluations)
    assert evaluations[named] == own and len(evaluations) == 3
