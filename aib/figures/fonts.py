"""Fonts for names in any script."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from PIL import ImageFont

NO_CHARACTER = "\U0010ffff"  # drawn as the font's sign for a missing one


@cache
def text_font(size: int, text: str = "", *, bold: bool = False) -> ImageFont.FreeTypeFont:
    """DejaVu Sans, or another installed font for a text with characters that it does not have."""
    return ImageFont.truetype(other_font(text) or _dejavu(bold), size)


@cache
def other_font(text: str) -> str | None:
    """File of an installed font with all characters of a text, if DejaVu Sans has not all."""
    if _has_characters(_dejavu(), text):
        return None
    fonts = _installed()
    found = next((path for path in fonts if _has_characters(path, text)), None)
    if found is not None:
        fonts.remove(found)
        fonts.insert(0, found)  # the next name is likely to be in the same script
    return found


def _dejavu(bold: bool = False) -> str:
    # It comes with matplotlib, which takes long to import.
    found = find_spec("matplotlib")
    assert found is not None and found.origin is not None
    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return str(Path(found.origin).parent / "mpl-data" / "fonts" / "ttf" / name)


@cache
def _installed() -> list[str]:
    """Font files of this system, regular ones without serifs first."""
    from matplotlib.font_manager import findSystemFonts

    return sorted(findSystemFonts(), key=lambda p: ("Sans" not in p, "Regular" not in p, p))


def _has_characters(path: str, text: str) -> bool:
    try:
        font = ImageFont.truetype(path, 20)
    except OSError:  # damaged, or of fixed sizes
        return False
    missing = list(font.getmask(NO_CHARACTER))
    return all(list(font.getmask(c)) != missing for c in set(text) if not c.isspace())
