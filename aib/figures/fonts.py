"""Fonts for names in any script."""

from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from unicodedata import bidirectional

from PIL import ImageFont

NO_CHARACTER = "\U0010ffff"  # drawn as the font's sign for a missing one
MARK = "\N{LEFT-TO-RIGHT MARK}"  # is not seen


def text_font(size: int, text: str = "", *, bold: bool = False) -> ImageFont.FreeTypeFont:
    """DejaVu Sans, or for a text that it lacks characters of another font, which is never bold."""
    return _open(other_font(text) or _dejavu(bold), size)


def in_order(name: str) -> str:
    """A name inside a line of English: Arabic or Hebrew would turn the order of the line around."""
    right_to_left = any(bidirectional(character) in ("R", "AL") for character in name)
    return f"{MARK}{name}{MARK}" if right_to_left else name


def other_font(text: str) -> str | None:
    """File of the installed font with the most characters of a text, if DejaVu Sans lacks some."""
    lacking = "".join(sorted({c for c in text if not c.isspace() and not _count(_dejavu(), c)}))
    return _font_with(lacking) if lacking else None


@cache
def _font_with(characters: str) -> str:
    """File of the font with the most of these characters, then with the most of English."""
    fonts = [_dejavu(), *_installed()]
    return max(fonts, key=lambda path: (_count(path, characters), _count(path, "aZ09%(.")))


@cache
def _dejavu(bold: bool = False) -> str:
    # It comes with matplotlib, which takes long to import.
    folder = Path(str(find_spec("matplotlib").origin)).parent  # type: ignore[union-attr]
    return str(folder / "mpl-data/fonts/ttf" / f"DejaVuSans{'-Bold' * bold}.ttf")


@cache
def _installed() -> list[str]:
    """Font files of this system, regular ones without serifs first."""
    from matplotlib.font_manager import findSystemFonts

    # LastResort has one sign for all characters of a script.
    found = [path for path in findSystemFonts() if "LastResort" not in path]
    return sorted(found, key=lambda p: ("Sans" not in p, "Regular" not in p, p))


@lru_cache(maxsize=64)
def _open(path: str, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(path, size)


@lru_cache(maxsize=4096)
def _count(path: str, characters: str) -> int:
    """How many of the characters a font has."""
    try:
        font = _open(path, 20)
    except OSError:  # damaged, or of fixed sizes
        return 0
    missing = list(font.getmask(NO_CHARACTER))
    return sum(list(font.getmask(c)) != missing for c in characters)
