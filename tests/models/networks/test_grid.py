"""How features lie in memory, read from their shape."""

import pytest
import torch
from hypothesis import given, strategies as st

from aib.models.networks.grid import ToGrid, read_grid


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ([2, 512, 14, 14], ("nchw", 0, 0)),
        ([2, 8, 8, 8], ("nchw", 0, 0)),
        ([2, 7, 7, 768], ("nhwc", 0, 0)),
        ([2, 196, 384], ("tokens", 0, 14)),
        ([2, 197, 768], ("tokens", 1, 14)),
        ([2, 201, 384], ("tokens", 5, 14)),  # with four registers
        ([2, 17, 8], ("tokens", 1, 4)),
        ([2, 8, 4, 6], None),
        ([2, 16, 1, 1], None),
        ([2, 768], None),
        ([2, 28, 8], ("tokens", 3, 5)),
        ([2, 77, 512], None),  # words, not positions
    ],
)
def test_the_shape_says_how_features_lie(shape, expected):
    found = read_grid(shape)
    assert (None if found is None else (found.layout, found.prefix, found.side)) == expected


@given(st.integers(0, 8), st.integers(1, 5), st.integers(1, 3))
def test_every_position_is_where_the_layout_says(prefix, side, c):
    f = torch.randn(2, prefix + side * side, c)
    grid = ToGrid("tokens", prefix, side)(f)
    assert grid.shape == (2, c, side, side)
    for i in range(side):
        for j in range(side):
            assert torch.equal(grid[:, :, i, j], f[:, prefix + i * side + j])
    image = torch.randn(2, side, side, c)
    assert torch.equal(ToGrid("nhwc")(image)[:, :, side - 1, 0], image[:, side - 1, 0])
    assert ToGrid("nchw")(image) is image
