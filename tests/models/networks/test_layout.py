"""How features lie in memory: told by their shape where one reading fits, else by the caller."""

import pytest
import torch
from aib.models.networks.layout import ToGrid, read_layout
from hypothesis import given
from hypothesis import strategies as st

from aib.errors import AibError

VIT = ("tokens", 1, (4, 4))


@pytest.mark.parametrize(
    ("shape", "grown", "size", "arguments", "expected"),
    [
        ([2, 512, 14, 14], [1, 512, 28, 28], 224, {}, ("nchw", None, None)),
        ([2, 512, 14, 14], None, 224, {}, ("nchw", None, None)),
        ([2, 8, 8, 8], [1, 8, 16, 16], 32, {}, ("nchw", None, None)),
        ([2, 8, 8, 8], [1, 16, 16, 8], 32, {}, ("nhwc", None, None)),
        ([2, 8, 8, 16], [1, 8, 16, 32], 32, {}, ("nchw", None, None)),  # strides differ
        ([2, 7, 7, 768], None, 224, {}, ("nhwc", None, None)),
        ([2, 8, 8, 8], None, 32, {"layout": "nhwc"}, ("nhwc", None, None)),
        ([2, 197, 768], None, 224, {}, ("tokens", 1, (14, 14))),
        ([2, 201, 384], None, 224, {}, ("tokens", 5, (14, 14))),  # with four registers
        ([2, 196, 384], None, 224, {}, ("tokens", 0, (14, 14))),
        ([2, 29, 8], [1, 77, 8], 32, {}, ("tokens", 13, (4, 4))),  # 13 + 16 and 13 + 64
        ([2, 17, 8], None, 16, {}, VIT),
        ([2, 17, 8], None, 30, {"prefix_tokens": 1}, VIT),
        ([2, 17, 8], None, 16, {"grid": [4, 4]}, VIT),  # a list, as in JSON
        ([2, 19, 8], None, 16, {"layout": "tokens", "grid": (2, 8)}, ("tokens", 3, (2, 8))),
    ],
)
def test_features_are_read_in_the_one_way_that_fits(shape, grown, size, arguments, expected):
    found = read_layout(shape, grown, size, **arguments)
    assert (found.layout, found.prefix_tokens, found.grid) == expected


@pytest.mark.parametrize(
    ("shape", "grown", "size", "arguments", "words"),
    [
        ([2, 8, 8, 8], None, 32, {}, r"\[2, 8, 8, 8\] .* several ways"),
        ([2, 8, 8, 8], [1, 8, 8, 8], 32, {}, "several ways"),  # pooled to one size
        ([2, 8, 4, 6], None, 32, {}, "fit no grid"),
        ([2, 8, 4, 6], [1, 9, 4, 6], 32, {}, "fit no grid"),
        ([2, 8, 4, 4], [1, 16, 8, 8], 32, {}, "fit no grid"),  # all three grow
        ([2, 4, 4, 8], [1, 8, 8, 16], 32, {}, "fit no grid"),
        ([2, 17, 8], [1, 64, 8], 16, {}, "fit no grid"),  # 1 + 16 would have 1 + 64
        ([2, 9, 8], None, 12, {}, "several ways"),  # 0 + 3 x 3, 5 + 2 x 2
        ([2, 23, 8], None, 23, {}, "fit no grid"),
        ([2, 17, 8], [1, 17, 16], 16, {}, "fit no grid"),  # [B,c,N]
        ([2, 17, 8], None, 16, {"prefix_tokens": 2}, "fit no grid"),
        ([2, 17, 8], None, 16, {"grid": (4, 5)}, "fit no grid"),
        ([2, 17, 8], None, 16, {"grid": (4, 4), "prefix_tokens": 0}, "fit no grid"),
        ([2, 17, 8], None, 16, {"layout": "nchw"}, "fit no grid"),
        ([2, 8, 4, 4], None, 16, {"layout": "tokens"}, "fit no grid"),
        ([2, 8, 4, 4], None, 16, {"grid": (4, 4)}, "fit no grid"),
    ],
)
def test_otherwise_the_error_names_the_arguments(shape, grown, size, arguments, words):
    with pytest.raises(AibError, match=words + r".*layout=.*prefix_tokens=.*grid="):
        read_layout(shape, grown, size, **arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"layout": "NCHW"}, "layout must be one of 'nchw', 'nhwc', 'tokens' or None, not 'NCHW'"),
        ({"prefix_tokens": -1}, "prefix_tokens must be an integer of at least 0 or None, not -1"),
        ({"grid": (4,)}, "grid must be 2 values"),
        ({"grid": (0, 4)}, "grid must be 2 values, each an integer of at least 1"),
        ({"layout": "nhwc", "grid": (4, 4)}, "are for layout=\"tokens\", not for 'nhwc'"),
    ],
)
def test_wrong_values_are_named(arguments, words):
    with pytest.raises(AibError, match=words):
        read_layout([2, 17, 8], None, 16, **arguments)


@given(st.integers(0, 4), st.integers(1, 5), st.integers(1, 5), st.integers(1, 3))
def test_every_position_is_where_the_layout_says(prefix, h, w, c):
    f = torch.randn(2, prefix + h * w, c)
    grid = ToGrid("tokens", prefix, (h, w))(f)
    assert grid.shape == (2, c, h, w)
    for i in range(h):
        for j in range(w):
            assert torch.equal(grid[:, :, i, j], f[:, prefix + i * w + j])
    image = torch.randn(2, h, w, c)
    assert torch.equal(ToGrid("nhwc")(image)[:, :, h - 1, 0], image[:, h - 1, 0])
    assert ToGrid("nchw")(image) is image


def test_another_number_of_tokens_is_a_sentence():
    with pytest.raises(AibError, match="grid of 4 x 4 needs 17 tokens, and .* have 26"):
        ToGrid("tokens", 1, (4, 4))(torch.zeros(2, 26, 8))
