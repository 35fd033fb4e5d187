"""The benchmarks run, and their ratios follow from the rates that they print."""

import pytest
import torch
from torch import nn

import aib
from tests.data import official
from tools.bench import data, latency, summarise, time_in_turns, train

SMALL = {"model": "tiny_aib_qt", "width": 0.25}


def forward_flops_by_hand() -> int:
    """FLOPs of one image from the sizes of the layers: two per weight and position."""
    model = aib.create_model("tiny_aib_qt", 10, width=0.25).eval()
    counted = []

    def count(layer: nn.Module, _inputs: object, out: torch.Tensor) -> None:
        positions = out[0, 0].numel() if isinstance(layer, nn.Conv2d) else 1
        counted.append(2 * layer.weight.numel() * positions)

    for layer in model.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            layer.register_forward_hook(count)
    model(torch.zeros(1, 3, 32, 32), samples=(1, 1))
    return sum(counted)


def test_training_is_compared_with_a_plain_loop_and_a_matrix_product():
    found = train(**SMALL, batch_size=8, steps=2, workers=0, device="cpu", twin="tiny")
    rate = found["images_per_second"]
    assert found["ratio"] == pytest.approx(rate / found["plain_images_per_second"])
    assert found["twin"] == "tiny" and found["twin_ratio"] > 0
    flops = forward_flops_by_hand()
    assert found["tflops"] == pytest.approx(3 * flops * rate / 1e12)  # a step: three passes
    assert found["share_of_matmul"] == pytest.approx(found["tflops"] / found["matmul_tflops"])


def test_steps_with_the_loader_are_compared_with_steps_on_the_device(tmp_path):
    folder = official.write_folder(tmp_path, per_class=4, side=90)
    options = {"batch_size": 4, "workers": 0, "seconds": 0.1, "device": "cpu"}
    found = data(f"folder:{folder}:image_size=72", model="tiny_aib_masked", width=0.25, **options)
    rate, on_device = found["images_per_second"], found["on_device_images_per_second"]
    assert found["ratio"] == pytest.approx(rate / on_device) and found["image_size"] == 72


def test_variants_take_turns_and_are_compared_with_eager():
    calls: list[str] = []
    variants = {name: lambda x, name=name: calls.append(name) for name in ("eager", "onnx")}
    times = time_in_turns(variants, torch.zeros(1), seconds=0.02)
    turns = calls[2:]  # after one call of each
    assert turns[:8] == ["eager"] * 4 + ["onnx"] * 4  # the first of each four is not counted
    assert len(turns) * 3 == sum(map(len, times.values())) * 4
    eager, onnx = summarise({"eager": [0.03, 0.01, 0.01], "onnx": [0.004, 0.005, 0.006]}, 2)
    assert (eager["way"], eager["ratio"], eager["calls"]) == ("eager", 1, 3)
    assert eager["median_ms"] == pytest.approx(10) and eager["p90_ms"] == pytest.approx(26)
    assert (onnx["median_ms"], onnx["ratio"]) == (pytest.approx(5), pytest.approx(2))


@pytest.mark.slow
def test_latency_measures_the_exported_file_and_explanations():
    pytest.importorskip("onnxruntime")
    pytest.importorskip("captum")
    others = {"others": ("tiny_aib_masked",), "gradcam": "tiny"}
    found = latency(**SMALL, seconds=0.01, compile=False, **others)["latency"]["rows"]
    explained = [
        f"explain {name}, {how}"
        for name in ("tiny_aib_qt", "tiny_aib_masked")
        for how in ("4 samples", "one pass")
    ]
    ways = ["eager", "onnx"] * 2 + explained + ["Grad-CAM tiny"]
    assert [row["way"] for row in found] == ways
    assert [row["batch"] for row in found] == [1, 1, 32, 32] + [1] * 5
