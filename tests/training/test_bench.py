"""The benchmarks run and say what they measured; how fast is not a test's business."""

import json
from importlib.metadata import version

import pytest
import torch
from torch import nn

import aib
from aib.cli import main
from aib.commands.bench import pick
from aib.settings import Precision, Settings


def test_training_is_measured_against_a_plain_loop(capsys: pytest.CaptureFixture) -> None:
    words = "train --model tiny_aib_qt --width 0.1 --batch-size 8 --steps 2 --workers 0"
    assert main(["bench", *words.split(), "--device", "cpu", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    ratio = result["images_per_second"] / result["plain_images_per_second"]
    assert result["ratio"] == pytest.approx(ratio, abs=0.02)
    # A step costs three forward passes.
    tflops = 3 * forward_operations() * result["images_per_second"] / 1e12
    assert result["tflops"] == pytest.approx(tflops, rel=0.01)
    share = result["tflops"] / result["matmul_tflops"]
    assert result["share_of_matmul"] == pytest.approx(share, rel=1e-6)
    assert result["environment"]["torch"] == version("torch")


def forward_operations() -> int:
    """Of one image, from the sizes of the layers: a multiplication and an addition a weight."""
    model = aib.create_model("tiny_aib_qt", 10, width=0.1).eval()
    counted = []

    def count(layer: nn.Module, _inputs: object, out: torch.Tensor) -> None:
        places = out[0, 0].numel() if isinstance(layer, nn.Conv2d) else 1
        counted.append(2 * layer.weight.numel() * places)

    for layer in model.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            layer.register_forward_hook(count)
    model(torch.zeros(1, 3, 32, 32), samples=(1, 1))
    return sum(counted)


def test_evaluation_is_measured(capsys: pytest.CaptureFixture) -> None:
    words = "infer --model tiny_aib_qt --width 0.1 --batch-size 4 --samples 2x3 --seconds 0.01"
    words += " --no-latency --device cpu --json"
    assert main(["bench", *words.split()]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["samples"] == "2x3"


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_what_a_gpu_is_measured_with_can_be_trained_with(precision: Precision) -> None:
    how = pick(torch.device("cuda"), None, precision, None)
    assert how.graphs == (precision != "fp16")
    Settings(precision=how.precision, compile=how.compile, graphs=how.graphs)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("train --steps -3", "at least 1, not -3"),
        ("infer --batch-size 0", "at least 1, not 0"),
        ("infer --seconds -1", "above 0 and finite, not -1"),
        ("infer --seconds nan", "above 0 and finite, not nan"),
        ("data --seconds inf", "above 0 and finite, not inf"),
    ],
)
def test_a_size_that_makes_no_sense_is_refused(
    words: str, sentence: str, capsys: pytest.CaptureFixture
) -> None:
    assert main(["bench", *words.split()]) == 2
    assert sentence in capsys.readouterr().err
