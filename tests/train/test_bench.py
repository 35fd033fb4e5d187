"""The benchmarks run and say what they measured; how fast is not a test's business."""

import json

import pytest
import torch

from aib.cli import main
from aib.commands.bench import pick
from aib.settings import Precision, Settings


def test_training_is_measured_against_a_plain_loop(capsys: pytest.CaptureFixture) -> None:
    words = "train --model tiny_aib_qt --width 0.1 --batch-size 8 --steps 2 --workers 0"
    assert main(["bench", *words.split(), "--device", "cpu", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    ratio = result["images_per_second"] / result["plain_images_per_second"]
    assert result["ratio"] == pytest.approx(ratio, abs=0.02)
    assert result["share_of_matmul"] > 0
    assert result["environment"]["torch"]


def test_evaluation_is_measured_and_its_growth_drawn(
    capsys: pytest.CaptureFixture, tmp_path
) -> None:
    words = "infer --model tiny_aib_qt --width 0.1 --batch-size 4 --samples 2x3 --seconds 0.01"
    grow = tmp_path / "growth.png"
    words += f" --no-latency --device cpu --json --grow {grow}"
    assert main(["bench", *words.split()]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["samples"] == "2x3"
    assert {row["axis"] for row in result["growth"]} == {"S", "M", "batch", "image size"}
    assert grow.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_what_a_gpu_is_measured_with_can_be_trained_with(precision: Precision) -> None:
    how = pick(torch.device("cuda"), None, precision, None)
    assert how.graphs == (precision != "fp16")
    Settings(precision=how.precision, compile=how.compile, graphs=how.graphs)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("train --steps -3", "at least 1, not -3"),
        ("infer --batch-size 0", "between 1 and"),
        ("infer --seconds -1", "above 0 and at most 3,600, not -1"),
        ("infer --seconds nan", "above 0 and at most 3,600, not nan"),
        ("data --seconds 3601", "above 0 and at most 3,600, not 3601"),
    ],
)
def test_a_size_that_makes_no_sense_is_refused(
    words: str, sentence: str, capsys: pytest.CaptureFixture
) -> None:
    assert main(["bench", *words.split()]) == 2
    assert sentence in capsys.readouterr().err
