import numpy as np
import pytest

from aib.figures.overlay import color_table
from aib.figures.row import SIDE, Panel, draw_row

CRIMSON = (220, 20, 60)
FRAME = (100, 0, 240, 70)  # drawn twice as large: 280 x 140
GREEN = np.full((7, 14, 3), (0, 200, 0), np.uint8)


def drawn(*panels, title="", **options):
    return np.asarray(draw_row(panels, FRAME, title=title, **options)).astype(int)


def where(picture, color):
    """The rows and columns of a colour: the first and the last of each."""
    ys, xs = (picture == color).all(-1).nonzero()
    return ys.min(), ys.max(), xs.min(), xs.max()


def test_a_box_is_drawn_where_it_lies_in_the_image():
    top, _, left, _ = where(drawn(Panel("", GREEN)), GREEN[0, 0])
    picture = drawn(Panel("", GREEN, box=(110, 10, 200, 60)))
    assert where(picture, GREEN[0, 0]) == (top, top + 139, left, left + SIDE - 1)
    assert where(picture, CRIMSON) == (top + 20, top + 119, left + 20, left + 199)


@pytest.mark.parametrize("ends", [(0.0, 4.0), (2.0, 2.0)])
def test_values_have_the_colours_of_their_bar(ends):
    colors = color_table("magma")
    low, high = ends
    picture = drawn(Panel("", np.array([[low, high + 1]]), ends, "magma"))
    row = picture[len(picture) // 2]
    for color, column in ((colors[0], 20), (colors[255], SIDE)):  # left and right half
        assert (row[column] == color).all()
    top, bottom, *_ = where(picture[:, : SIDE + 16], colors[255])
    bar = picture[top : bottom + 1, SIDE + 30]  # the greatest value is above
    assert abs(bar[0] - colors[255]).max() < 8 and abs(bar[-1] - colors[0]).max() < 8


def test_the_picture_holds_all_of_a_long_title_and_any_name():
    """Names come from folders: signs of formulas, line breaks, bytes that are no text."""
    short = drawn(Panel("", GREEN))
    for text in ("long " * 40, "$x_{1", "two\nlines", "\udcff", "σ · 猫", "\0"):
        picture = drawn(Panel(text, GREEN), title=text, subtitle=text)
        assert (picture[0] == 255).all() and (picture[:, 0] == 255).all()
        assert (picture[:, -1] == 255).all() and (picture[-1] == 255).all()
        assert picture.shape[0] > short.shape[0] or picture.shape[1] > short.shape[1]
