"""Parameters and multiply-adds of the models, against counts made by hand."""

import pytest
import torch

import aib
from aib.models.counts import measure

SIGMA = 3 * 3 - 1  # weights of its larger kernel in the released code


def count(name, num_classes=10, image_size=32, **options):
    with torch.device("meta"):
        model = aib.create_model(name, num_classes, image_size, **options)
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("name", "num_classes", "image_size", "parameters", "difference"),
    [
        ("vgg_aib", 10, 32, 20_040_789, SIGMA),
        ("vgg_aib_qt", 100, 32, 20_063_919 + 20, SIGMA),
        ("wrn_aib", 10, 32, 65_004_500, SIGMA),
        ("wrn_aib_qt", 100, 32, 65_109_260 + 50, SIGMA),
        ("vgg_att3", 10, 32, 19_855_434, 0),
        ("vgg_att3", 100, 32, 19_993_764, 0),
        ("wrn_abn", 10, 32, 64_349_486, 0),
        ("wrn_abn", 100, 32, 64_475_666, 0),
        ("vgg_aib", 200, 224, 17_196_307, SIGMA - 3 * (512 * 512 * 9 + 512)),
        ("vgg_aib_qt", 200, 224, 24_275_751, SIGMA),
        ("wrn_aib", 200, 224, 109_990_675, SIGMA),
    ],
)
def test_the_released_codes_parameters(name, num_classes, image_size, parameters, difference):
    """The paper's differ by the kernel of sigma, and vgg_aib's by its attention at 224."""
    form = name, num_classes, image_size
    assert count(*form, profile="released") == parameters
    assert count(*form) == parameters - difference


def by_hand_vgg_aib(k=256, c=10):
    """Multiply-adds of the layers in the description, added up."""

    def conv(c_in, c_out, size, kernel=3):
        return c_in * c_out * kernel**2 * size**2

    widths = [(3, 64), (64, 64), (64, 128), (128, 128), (128, 256), (256, 256), (256, 256)]
    stem = sum(conv(a, b, 32) for a, b in widths)
    attention = conv(256, 1, 16) + conv(1, 1, 16, 1)
    tail = conv(256, 512, 16) + 2 * conv(512, 512, 16) + 3 * conv(512, 512, 8)
    tail += conv(512, 512, 4) + conv(512, 512, 2) + conv(512, 512, 1, 1)
    return stem + attention + tail + 512 * 2 * k + k * k + k * c


def test_multiply_adds_of_vgg_aib_are_those_of_its_layers():
    assert measure("vgg_aib").multiply_adds == by_hand_vgg_aib()


@pytest.mark.parametrize(
    ("name", "num_classes", "image_size", "giga"),
    [("wrn_aib", 10, 32, 12.38), ("wrn_aib", 200, 224, 19.62)],
)
def test_multiply_adds_of_one_sample(name, num_classes, image_size, giga):
    row = measure(name, num_classes, image_size)
    assert row.multiply_adds / 1e9 == pytest.approx(giga, abs=0.005)


@pytest.fixture(scope="module")
def lite2():
    return measure("lite2", 1000, 224)


@pytest.mark.parametrize(
    ("options", "parameters", "giga"),  # of the proposal, beside the classifier
    [
        ({"map_stride": 8}, 1.2e6, 0.39 + 120 * 48 * 28**2 / 1e9),
        ({"propose": "twice"}, 0.0, 0.58),
    ],
)
def test_a_copy_costs_less_than_looking_twice(options, parameters, giga, lite2):
    plain, masked = lite2, measure("lite2_masked", 1000, 224, **options)
    assert plain.parameters == 6_092_072
    assert plain.multiply_adds / 1e9 == pytest.approx(0.58, abs=0.005)
    channels, positions = 128 if "propose" in options else 64, masked.attention[0] ** 2
    score = 120 * 9 * channels + channels  # a 3 x 3 and a 1 x 1 convolution
    added = masked.parameters - plain.parameters - score
    assert added == pytest.approx(parameters, abs=0.04e6)
    added = masked.multiply_adds - plain.multiply_adds - score * positions
    assert added / 1e9 == pytest.approx(giga, abs=0.005)
