"""`aib bench data`."""

import json

import pytest

from aib.bench.data import bench_data
from aib.cli import main
from tests.data import official
from tests.helpers import image_set


def test_both_loaders_are_measured():
    result = bench_data(image_set(600), batch_size=50, workers=1, seconds=0.1)
    assert result["device_images_per_second"] > 0 < result["dataloader_images_per_second"]
    assert result["ratio"] > 0 < result["trivial_augment_images_per_second"]


@pytest.mark.parametrize("cache", ["memory", "none"])
def test_large_images_are_measured_against_the_same_steps_on_the_device(tmp_path, capsys, cache):
    folder = official.write_folder(tmp_path, per_class=4, side=90)
    words = f"--data folder:{folder}:image_size=72 --model tiny_aib_masked --width 0.25"
    words += f" --cache {cache} --batch-size 4 --workers 0 --seconds 0.1 --device cpu --json"
    assert main(["bench", "data", *words.split()]) == 0
    result = json.loads(capsys.readouterr().out)
    rates = [value for name, value in result.items() if name.endswith("images_per_second")]
    assert len(rates) == 4 and min(rates) > 0
    quotient = result["images_per_second"] / result["on_device_images_per_second"]
    assert result["ratio"] == pytest.approx(quotient, rel=0.05, abs=0.002)
    assert ("90 x 90" in result["cache"]) == (cache == "memory")
