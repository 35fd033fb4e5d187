from pathlib import Path

import matplotlib
import numpy as np
import pytest

from aib.figures import fonts
from aib.figures.picture import Panel
from tests.figures.test_picture import GREEN, drawn

SIGNS = str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "STIXNonUni.ttf")
SIGN, OTHER = "\ue000", "\ue001"  # in that font, not in DejaVu Sans


@pytest.fixture(autouse=True)
def installed(monkeypatch, tmp_path):
    """A machine with one font that can be read."""
    damaged = tmp_path / "Sans-Regular.ttf"
    damaged.write_bytes(b"no font")
    found = [SIGNS, str(damaged)]
    monkeypatch.setattr("matplotlib.font_manager.findSystemFonts", lambda: found)
    fonts._font_with.cache_clear()
    yield
    fonts._font_with.cache_clear()


def test_an_installed_font_draws_what_dejavu_sans_lacks():
    assert fonts.text_font(20, SIGN).path == SIGNS
    assert fonts.text_font(20, f"{SIGN} {OTHER} 猫").path == SIGNS  # of most characters
    for text in ("cat", "Größe · кошка ≥ 1 …", "猫"):  # the last is in neither of them
        assert Path(fonts.text_font(20, text).path).name == "DejaVuSans.ttf"
    assert Path(fonts.text_font(20, bold=True).path).name == "DejaVuSans-Bold.ttf"
    pictures = [drawn(Panel(name, GREEN)) for name in (SIGN, OTHER)]
    assert not np.array_equal(*pictures)  # DejaVu Sans has one box for both
