"""The throughput benchmarks run and report consistent numbers."""

import json
from importlib.metadata import version
from unittest.mock import Mock

import pytest
import torch
from torch import nn

import aib
from aib.bench.throughput import bench_infer, matmul_rate, plain_training_rate
from aib.cli import main
from aib.commands.bench import Model
from aib.config.settings import Precision, Settings


def test_training_is_measured_against_a_plain_loop(capsys: pytest.CaptureFixture) -> None:
    words = "train --model tiny_aib_qt --width 0.1 --batch-size 8 --steps 2 --workers 0"
    assert main(["bench", *words.split(), "--device", "cpu", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    ratio = result["images_per_second"] / result["plain_images_per_second"]
    assert result["ratio"] == pytest.approx(ratio, abs=0.02)
    # A step costs three forward passes.
    tflops = 3 * forward_flops_by_hand() * result["images_per_second"] / 1e12
    assert result["tflops"] == pytest.approx(tflops, rel=0.01)
    share = result["tflops"] / result["matmul_tflops"]
    assert result["share_of_matmul"] == pytest.approx(share, rel=1e-6)
    assert result["environment"]["torch"] == version("torch")


def test_the_plain_loop_has_long_epochs_and_starts_its_workers_once(monkeypatch) -> None:
    epochs: list = []
    rate = Mock(side_effect=lambda loaders, *_: epochs.append(next(loaders)) or 1.0)
    monkeypatch.setattr("aib.bench.throughput.images_per_second", rate)
    work = Model(model="tiny_aib_qt", width=0.1).workload(torch.device("cpu"))
    assert plain_training_rate(work, workers=1) == 1.0
    [loader] = epochs
    assert len(loader) == 64
    first = iter(loader)
    assert iter(loader) is first  # the same workers in the next epoch
    x, y = next(first)
    assert x.shape[:2] == (128, 3) and len(y.unique()) > 1


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_the_ceiling_is_a_matrix_product_of_the_same_precision(precision, monkeypatch) -> None:
    rate = Mock(return_value=1.0)
    monkeypatch.setattr("aib.bench.throughput.calls_per_second", rate)
    matmul_rate(torch.device("cpu"), precision)
    monkeypatch.setattr(torch, "mm", lambda a, b: (a.dtype, b.dtype))
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    assert rate.call_args.args[0]() == (dtype, dtype)


def forward_flops_by_hand() -> int:
    """FLOPs of one image from the sizes of the layers: two per weight and position."""
    model = aib.create_model("tiny_aib_qt", 10, width=0.1).eval()
    counted = []

    def count(layer: nn.Module, _inputs: object, out: torch.Tensor) -> None:
        positions = out[0, 0].numel() if isinstance(layer, nn.Conv2d) else 1
        counted.append(2 * layer.weight.numel() * positions)

    for layer in model.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            layer.register_forward_hook(count)
    model(torch.zeros(1, 3, 32, 32), samples=(1, 1))
    return sum(counted)


@pytest.mark.parametrize(("model", "samples"), [("vgg", "deterministic"), ("vgg_dvib", "2x3")])
def test_a_model_without_noise_is_not_said_to_be_sampled(model, samples, monkeypatch) -> None:
    monkeypatch.setattr("aib.bench.throughput.infer_rate", lambda *_, **__: 1.0)
    work = Model(model=model, width=0.1).workload(torch.device("cpu"))
    assert bench_infer(work, samples=(2, 3))["samples"] == samples


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_the_defaults_of_a_gpu_are_valid_settings(precision: Precision) -> None:
    options = Model(precision=precision).workload(torch.device("cuda"))
    assert options.graphs == (precision != "fp16")
    Settings(precision=precision, compile=options.compile, graphs=options.graphs)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("train --steps -3", "at least 1, not -3"),
        ("train --model tiny_aib_qt --against tinny_aib", "no model 'tinny_aib'"),
        ("infer --batch-size 0", "at least 1, not 0"),
        ("infer --seconds -1", "a number above 0, not -1"),
        ("infer --seconds nan", "a number above 0, not nan"),
        ("data --batch-size 0", "batch_size must be an integer of at least 1, not 0"),
        ("data --seconds inf", "a number above 0, not inf"),
    ],
)
def test_an_invalid_value_is_an_error(
    words: str, message: str, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aib.bench.throughput.training_rate", lambda *_: pytest.fail("measured"))
    assert main(["bench", *words.split()]) == 2
    assert message in capsys.readouterr().err
