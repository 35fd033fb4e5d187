"""The picture of what the area of a mask costs."""

import pytest

from tests.tools.test_results import ROOT, STORED
from tools.areas import draw_areas, main

BIRDS = STORED.files["cub200_full"].runs


def test_each_panel_has_a_point_per_run_and_the_plain_network_s_mean(tmp_path):
    axes = draw_areas(BIRDS).axes
    assert len(axes) == 3
    masked = [run for run in BIRDS if run.model == "vgg_aib_masked"]
    lines = [line for line in axes[0].lines if line.get_marker() == "o"]
    points = [point for line in lines for point in zip(*line.get_data(), strict=True)]
    assert sorted(points) == sorted((run.recipe.get("area", 0.25), run.error) for run in masked)
    [plain] = [line for line in axes[0].lines if line.get_linestyle() == "--"]
    errors = [run.error for run in BIRDS if run.model == "vgg"]
    assert plain.get_ydata()[0] == pytest.approx(sum(errors) / len(errors))
    main([str(ROOT / "results" / "cub200_full.json"), str(tmp_path / "areas.png")])
    assert (tmp_path / "areas.png").read_bytes().startswith(b"\x89PNG")
