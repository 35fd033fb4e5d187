"""Sheets of tiles."""

import numpy as np

from aib.figures.picture import draw_mosaic, save_figure


def test_any_name_is_drawn_as_it_is(tmp_path):
    """Names come from folders: signs of formulas, bytes that are no text."""
    names = ["$1_or_$5", "$x_{1", "\udcff"]
    tile = np.zeros((32, 32, 3), np.uint8)
    figure = draw_mosaic([[tile] * 3] * 3, names, names, "$1_or_$5 \udcff")
    save_figure(figure, tmp_path / "any.png")
    assert (tmp_path / "any.png").is_file()
