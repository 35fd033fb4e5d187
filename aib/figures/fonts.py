"""Fonts for names in any script."""

from collections.abc import Set
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from unicodedata import bidirectional

from PIL import ImageFont

MARK = "\N{LEFT-TO-RIGHT MARK}"  # is not seen
# Latin, Greek and Cyrillic end before it. It comes with matplotlib, which takes long to import.
ARMENIAN, DEJAVU = 0x530, "mpl-data/fonts/ttf/DejaVuSans"


def text_font(size: int, text: str = "", *, bold: bool = False) -> ImageFont.FreeTypeFont:
    """DejaVu Sans, or for a text that it lacks characters of another font, which is never bold."""
    plain = all(ord(character) < ARMENIAN for character in text)
    path = None if plain else _font_with(frozenset(map(ord, text)))
    return ImageFont.truetype(path or _dejavu(bold), size)


def in_order(name: str) -> str:
    """A name inside a line of English: Arabic or Hebrew would turn the order of the line around."""
    right_to_left = any(bidirectional(character) in ("R", "AL") for character in name)
    return f"{MARK}{name}{MARK}" if right_to_left else name


@cache
def _font_with(characters: frozenset[int]) -> str | None:
    """The installed font with the most that DejaVu Sans lacks, then with the most of all."""
    from matplotlib.font_manager import findSystemFonts

    lacking = characters - _characters(_dejavu())
    # LastResort has one sign for all characters of a script.
    found = sorted(findSystemFonts(), key=lambda p: ("Sans" not in p, "Regular" not in p, p))
    counts = {
        path: (len(lacking & has), len(characters & has))
        for path in found
        if "LastResort" not in path and lacking & (has := _characters(path))
    }
    return max(counts, key=counts.__getitem__, default=None)


@cache
def _dejavu(bold: bool = False) -> str:
    folder = Path(str(find_spec("matplotlib").origin)).parent  # type: ignore[union-attr]
    return str(folder / f"{DEJAVU}{'-Bold' * bold}.ttf")


@cache
def _characters(path: str) -> Set[int]:
    from matplotlib.ft2font import FT2Font

    try:
        return FT2Font(path).get_charmap().keys()
    except (OSError, RuntimeError):  # damaged
        return frozenset()
