from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from aib.figures import fonts
from aib.figures.picture import save_figure
from aib.figures.row import Panel
from tests.figures.test_row import GREEN, drawn

SIGNS = str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "STIXNonUni.ttf")
SIGN, OTHER = "\ue000", "\ue001"  # in that font, not in DejaVu Sans


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """A machine with one font that can be read."""
    damaged = tmp_path / "Sans-Regular.ttf"
    damaged.write_bytes(b"no font")
    found = [SIGNS, str(damaged)]
    monkeypatch.setattr("matplotlib.font_manager.findSystemFonts", lambda: found)
    for one in (fonts._font_with, fonts._installed):
        one.cache_clear()
    yield
    for one in (fonts._font_with, fonts._installed):
        one.cache_clear()


@pytest.mark.usefixtures("installed")
def test_an_installed_font_draws_what_dejavu_sans_lacks():
    assert fonts.text_font(20, SIGN).path == SIGNS
    assert fonts.text_font(20, f"{SIGN} {OTHER} 猫").path == SIGNS  # of most characters
    for text in ("cat", "Größe · кошка ≥ 1 …", "猫"):  # the last is in neither of them
        assert Path(fonts.text_font(20, text).path).name == "DejaVuSans.ttf"
    assert Path(fonts.text_font(20, bold=True).path).name == "DejaVuSans-Bold.ttf"


@pytest.mark.usefixtures("installed")
def test_explanations_and_figures_use_it(tmp_path):
    pictures = [drawn(Panel(name, GREEN)) for name in (SIGN, OTHER)]
    assert not np.array_equal(*pictures)  # DejaVu Sans has one box for both
    figure = Figure()
    text, other = figure.text(0.5, 0.5, SIGN, fontsize=7), figure.text(0.5, 0.2, "cat")
    save_figure(figure, tmp_path / "figure.png")
    assert text.get_fontproperties().get_file() == SIGNS and text.get_fontsize() == 7
    assert other.get_fontproperties().get_file() is None


def test_a_character_that_no_font_has_is_a_box_without_a_warning(tmp_path, recwarn):
    figure = Figure()
    figure.text(0.5, 0.5, fonts.NO_CHARACTER)
    save_figure(figure, tmp_path / "figure.png")
    assert not recwarn
