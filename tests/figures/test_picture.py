import numpy as np
import pytest

from aib.figures.overlay import color_table
from aib.figures.picture import SIDE, Panel, draw_mosaic, draw_row

ANY = ("long " * 40, "$x_{1", "two\nlines", "\udcff", "σ · 猫", "\0")  # names come from folders
SHAPE = (70, 140, 3)  # drawn twice as large: 280 x 140
GREEN = np.full((7, 14, 3), (0, 200, 0), np.uint8)


def drawn(*panels, title="", **options):
    return np.asarray(draw_row(panels, SHAPE, title=title, **options)).astype(int)


def where(picture, color):
    """The rows and columns of a colour: the first and the last of each."""
    ys, xs = (picture == color).all(-1).nonzero()
    return ys.min(), ys.max(), xs.min(), xs.max()


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


def assert_whole(picture):
    """Nothing is cut off at the border."""
    for edge in (picture[0], picture[-1], picture[:, 0], picture[:, -1]):
        assert (edge == 255).all()


def test_a_picture_holds_all_of_a_long_title_and_any_name():
    short = drawn(Panel("", GREEN))
    for text in ANY:
        picture = drawn(Panel(text, GREEN), title=text, subtitle=text)
        assert_whole(picture)
        assert picture.shape[0] > short.shape[0] or picture.shape[1] > short.shape[1]


def test_a_grid_has_its_tiles_in_order_and_holds_any_name():
    colors = [[(30 * i, 200, 50 * j) for j in range(3)] for i in range(2)]
    tiles = [[np.full((32, 32, 3), color, np.uint8) for color in row] for row in colors]
    sheet = np.asarray(draw_mosaic(tiles, ANY[1:3], ANY[3:]))
    ends = [where(sheet, color) for row in colors for color in row]
    sizes = {(bottom - top + 1, right - left + 1) for top, bottom, left, right in ends}
    assert sizes == {(128, 128)}  # pixels stay squares
    tops, lefts = [end[0] for end in ends], [end[2] for end in ends]
    assert tops[0] == tops[2] < tops[3] == tops[5] and lefts[0] == lefts[3] < lefts[1] < lefts[2]
    wide = np.asarray(draw_mosaic(tiles, ANY[1:3], ANY[:3], ANY[3]))
    assert wide.shape[1] > 2 * sheet.shape[1]
