"""Evaluation against counts by hand, and `aib eval`."""

import json
import math
from pathlib import Path

import pytest
import torch
from PIL import Image

import aib
from aib.cli import main
from aib.commands.options import parse_samples
from aib.data import ImageSet, load
from aib.evaluation import EvaluationMetrics, evaluate, match_classes, wilson_interval
from aib.preprocessing import Preprocessing
from tests.helpers import image_set, small_model


def images(count: int = 30, names: tuple[str, ...] = tuple("abcdefgh")) -> ImageSet:
    return image_set(count, len(names), class_names=names)


def tiny(num_classes: int = 8, names: tuple[str, ...] = ()) -> aib.Classifier:
    return small_model(num_classes=num_classes, preprocessing=Preprocessing(class_names=names))


@pytest.mark.parametrize("batch_size", [7, 64])
def test_the_metrics_match_a_count_by_hand(batch_size: int) -> None:
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
    assert got.nll == pytest.approx(nll, rel=1e-5)
    assert got.kl_bits == pytest.approx(float(kl), rel=1e-5)
    assert got.images == 30


def test_the_calibration_error_is_its_definition() -> None:
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


def test_the_kl_is_averaged_over_the_attentions_samples() -> None:
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


def test_the_noise_is_seeded_and_the_global_generator_left_alone() -> None:
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
    assert model.training


def test_averaging_is_recorded_and_makes_a_difference() -> None:
    model, data = tiny(), images()
    # Make the noise matter.
    with torch.no_grad():
        model.head.encode.bias[32:] = 6.0
    logits, probabilities = (evaluate(model, data, average=a) for a in ("logits", "probabilities"))
    assert (logits.averaged, probabilities.averaged) == ("logits", "probabilities")
    assert logits.nll != probabilities.nll


@pytest.mark.parametrize("errors, count", [(0, 10), (3, 40), (410, 10_000), (7, 7)])
def test_wilsons_interval_solves_its_equation(errors: int, count: int) -> None:
    """Its ends are the p at which |errors / count - p| = z sqrt(p (1 - p) / count)."""
    low, high = (end / 100 for end in wilson_interval(errors, count))
    share, z = errors / count, 1.959964
    assert 0 <= low <= share <= high <= 1
    for p in (low, high):
        if 0 < p < 1:
            assert abs(share - p) == pytest.approx(z * math.sqrt(p * (1 - p) / count), abs=1e-9)


CIFAR = tuple("airplane automobile bird cat deer dog frog horse ship truck".split())
STL = tuple("airplane bird car cat deer dog horse monkey ship truck".split())


def test_stl10_is_read_raw_and_matched_by_name() -> None:
    model = tiny(10, CIFAR)
    data = images(20, STL)
    found = dict(match_classes(model, data))
    assert list(found) == ["raw", "matched"]
    assert torch.equal(found["raw"].labels, data.labels)
    kept = [STL[y] for y in data.labels if STL[y] != "monkey"]
    matched = found["matched"]
    names = [CIFAR[y].replace("automobile", "car") for y in matched.labels]
    assert names == kept
    assert len(matched) == 18
    assert evaluate(model, matched, classes="matched").images == 18


def test_the_same_names_are_read_as_they_are() -> None:
    assert [how for how, _ in match_classes(tiny(10, CIFAR), images(20, CIFAR))] == ["own"]


def test_a_subset_of_names_is_matched() -> None:
    data = images(9, ("dog", "cat", "zebra"))
    ((how, kept),) = match_classes(tiny(10, CIFAR), data)
    assert how == "matched"
    assert sorted(set(kept.labels.tolist())) == [3, 5]


def test_classes_without_a_common_name_are_an_error() -> None:
    with pytest.raises(aib.AibError, match="8 classes do not fit"):
        match_classes(tiny(8, tuple("abcdefgh")), images(9, ("x", "y", "z")))


def test_the_command_prints_json_and_stores_it(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    run = tmp_path / "run"
    words = "--data shapes:count=48 --model tiny_aib_qt --width 0.25 --epochs 1 --batch-size 16"
    assert main(["train", *words.split(), "--accelerator", "cpu", "--out", str(run)]) == 0
    text = capsys.readouterr().out
    assert "top-1 error" in text
    assert f"the run is in {run}" in text
    assert main(["eval", str(run), "--samples", "2x3", "--device", "cpu", "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)["evaluations"]
    assert result["samples"] == "2x3"
    assert result["images"] == 48
    assert any("2x3" in key for key in json.loads((run / "evaluation.json").read_text()))


def test_a_folder_without_a_run_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["eval", str(tmp_path)]) == 2
    assert "has no config.json" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["4", "x", "0x3", "4x-1", "axb"])
def test_samples_are_written_with_an_x(text: str) -> None:
    with pytest.raises(aib.AibError, match="such as 4x12"):
        parse_samples(text)


def test_a_folder_without_test_images_is_evaluated_on_held_out_images(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "x").mkdir()
    for name, shade in (("dark", 40), ("light", 210)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(10):
            picture = Image.new("RGB", (40 + i, 32), (shade, shade + i, shade))
            picture.save(tmp_path / "photos" / name / f"{i}.png")
    data, run = f"folder:{tmp_path / 'photos'}:image_size=32", str(tmp_path / "run")
    words = f"--data {data} --model tiny_aib_qt --width 0.25 --epochs 1 --batch-size 8"
    assert main(["train", *words.split(), "--accelerator", "cpu", "--out", run]) == 0
    assert "on the held-out images" in capsys.readouterr().out
    assert main(["eval", run, "--device", "cpu", "--json"]) == 0
    (own,) = json.loads(capsys.readouterr().out)["evaluations"]
    assert (own["split"], own["images"]) == ("val", 4)  # a fifth of twenty
    # However the folder is spelled, training images are not evaluated.
    assert main(["eval", run, "--data", f"folder:{tmp_path}/x/../photos", "--json"]) == 0
    (again,) = json.loads(capsys.readouterr().out)["evaluations"]
    assert (again["split"], again["images"]) == ("val", 4)
    # The same images under another name count as another data set: all are evaluated.
    (tmp_path / "photos").rename(tmp_path / "others")
    foreign = f"folder:{tmp_path / 'others'}"
    assert main(["eval", run, "--data", foreign, "--device", "cpu", "--json"]) == 0
    (other,) = json.loads(capsys.readouterr().out)["evaluations"]
    assert other["images"] == 20


def test_with_a_holdout_training_leaves_the_test_images_to_aib_eval(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, loaded = tmp_path / "run", []

    def load_data(settings: aib.Settings, split: str) -> ImageSet:
        loaded.append(split)
        return load(settings.data, split, holdout=settings.holdout)

    monkeypatch.setattr("aib.training.train.load_data", load_data)
    words = "train --data shapes:count=50 --model tiny_aib_qt --width 0.25 --epochs 1"
    words += f" --batch-size 8 --accelerator cpu --out {run}"
    assert main([*words.split(), "--holdout", "0.2"]) == 0
    said = capsys.readouterr().out
    assert "on the held-out images" in said and f"`aib eval {run}` evaluates them" in said
    assert set(loaded) == {"train", "val"}
    evaluations = json.loads((run / "evaluation.json").read_text())
    assert [(e["split"], e["images"]) for e in evaluations.values()] == [("val", 10)]
    assert main(["eval", str(run), "--device", "cpu", "--json"]) == 0
    (own,) = json.loads(capsys.readouterr().out)["evaluations"]
    assert own["split"] == "test"
    assert main(["eval", str(run), "--device", "cpu", "--deterministic", "--json"]) == 0
    evaluations = json.loads((run / "evaluation.json").read_text())
    named = aib.Settings(data="shapes:count=50", holdout=0.2).own_evaluation(evaluations)
    assert evaluations[named] == own and len(evaluations) == 3


def test_a_damaged_image_is_skipped_with_a_message_or_stops_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    for name in ("a", "b"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(10):
            Image.new("RGB", (32, 32), (i, 0, 0)).save(tmp_path / "photos" / name / f"{i}.png")
    (tmp_path / "photos" / "a" / "bad.png").write_bytes(b"not a picture")
    words = f"--data folder:{tmp_path / 'photos'}:image_size=32 --model tiny --width 0.25".split()
    words += ["--epochs", "1", "--batch-size", "8", "--accelerator", "cpu"]
    assert main(["train", *words, "--out", str(tmp_path / "run")]) == 0
    out = capsys.readouterr().out
    assert "bad.png" in out
    assert "1 damaged files were skipped" in out
    assert main(["train", *words, "--strict", "--out", str(tmp_path / "other")]) == 2
    assert "bad.png" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_results_are_printed_even_if_the_evaluation_file_is_damaged(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    model = tiny(10)
    model.save_pretrained(tmp_path)
    (tmp_path / "evaluation.json").write_text("{")
    words = ["eval", str(tmp_path), "--data", "shapes:count=40", "--split", "train"]
    assert main([*words, "--device", "cpu", "--deterministic"]) == 2
    shown = capsys.readouterr()
    assert "40 images" in shown.out  # all of them: nothing is held out
    assert "evaluation.json cannot be read as JSON" in shown.err


@pytest.mark.parametrize("device", ["foo", "cuda:99"])
def test_an_unavailable_device_is_an_error(
    device: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    tiny(10).save_pretrained(tmp_path)
    if torch.cuda.is_available() and device != "foo":
        pytest.skip("there are CUDA devices here")
    assert main(["eval", str(tmp_path), "--data", "shapes:count=8", "--device", device]) == 2
    assert "device" in capsys.readouterr().err
