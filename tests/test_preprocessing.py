"""What happens to an image before a model sees it."""

import json

import pytest
import torch

from aib import AibError, Preprocessing


def test_pixels_are_scaled_shifted_and_divided_per_channel():
    preprocessing = Preprocessing(mean=(0.1, 0.2, 0.3), std=(0.5, 0.25, 0.125))
    pixels = torch.randint(0, 256, (2, 3, 4, 4), dtype=torch.uint8)
    x = preprocessing.normalise(pixels)
    for channel, (mean, std) in enumerate([(0.1, 0.5), (0.2, 0.25), (0.3, 0.125)]):
        expected = (pixels[:, channel].double() / 255 - mean) / std
        torch.testing.assert_close(x[:, channel].double(), expected, rtol=1e-5, atol=1e-5)


def test_it_survives_json():
    preprocessing = Preprocessing(64, "crop", (0, 0.5, 1), (1, 2, 0.5), ("a", "b"))
    assert Preprocessing.from_dict(json.loads(json.dumps(preprocessing.to_dict()))) == preprocessing


@pytest.mark.parametrize(
    "values",
    [
        {"image_size": "32"},
        {"image_size": -1},
        {"mean": [0.5, 0.5, 0.5]},
        {"mean": (0.5, 0.5)},
        {"std": (0.5, 0.5, -0.5)},
        {"std": (0.5, 0.5, float("inf"))},
        {"resize": "stretch"},
        {"class_names": (1, 2)},
        {"class_names": "ab"},
    ],
)
def test_wrong_values_are_refused_by_name(values):
    (name,) = values
    with pytest.raises(AibError, match=name):
        Preprocessing(**values)
