"""Preprocessing: normalisation, JSON, validation."""

from pathlib import Path

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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_floats_from_0_to_1_are_the_same_image_as_integers_up_to_255(dtype):
    pixels, tolerance = torch.randint(0, 256, (2, 3, 4, 4), dtype=torch.uint8), 1e-2
    expected = Preprocessing().normalise(pixels)
    found = Preprocessing().normalise(pixels.to(dtype) / 255)
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    assert torch.equal(Preprocessing().normalise(pixels.long()), expected)


def test_pixels_come_back():
    known = Preprocessing(mean=(0.1, 0.2, 0.3), std=(0.5, 0.25, 0.125))
    pixels = torch.randint(0, 256, (2, 3, 4, 4), dtype=torch.uint8)
    assert torch.equal(known.to_pixels(known.normalise(pixels)), pixels)
    beyond = torch.tensor([-9.0, 0.0, 9.0]).view(3, 1, 1)
    assert known.to_pixels(beyond).flatten().tolist() == [0, round(255 * 0.2), 255]


def test_a_file_has_to_say_everything():
    known = Preprocessing(64, "crop", (0.1, 0.2, 0.3), (0.5, 0.25, 0.125), ("a", "b"))
    assert Preprocessing.from_dict(known.to_dict(), Path("x")) == known
    for name in known.to_dict():
        values = {key: value for key, value in known.to_dict().items() if key != name}
        with pytest.raises(AibError, match=f"^x: preprocessing lacks {name}"):
            Preprocessing.from_dict(values, Path("x"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (torch.linspace(0, 255, 3), "torch.float32 from 0 to 255"),
        (torch.tensor([-2.1, 0.0, 2.6]), "from -2.1 to 2.6.*do not normalise twice"),
        (torch.tensor([0.0, 0.5, float("nan")]), "nan"),
        (torch.tensor([0, 1, 256]), "torch.int64 from 0 to 256"),
        (torch.tensor([-1, 1, 2]), "torch.int64 from -1 to 2"),
        (torch.tensor([True, False, True]), "torch.bool"),
    ],
)
def test_pixels_outside_their_types_range_are_refused(values, message):
    with pytest.raises(AibError, match=message):
        Preprocessing().normalise(values.view(1, 3, 1, 1))
