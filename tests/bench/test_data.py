"""`aib bench data`."""

from aib.bench.data import bench_data
from tests.helpers import image_set


def test_both_loaders_are_measured():
    result = bench_data(image_set(600), batch_size=50, workers=1, seconds=0.1)
    assert result["device_images_per_second"] > 0 < result["dataloader_images_per_second"]
    assert result["ratio"] > 0 < result["trivial_augment_images_per_second"]
