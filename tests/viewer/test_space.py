"""The page as a Hugging Face Space: `examples/space`."""

import runpy
import tomllib
from inspect import signature
from pathlib import Path

import pytest
from huggingface_hub import metadata_load
from packaging.requirements import Requirement

from aib.version import __version__
from tests.helpers import make_run
from tests.runs.server import serving

ROOT = Path(__file__).parent.parent.parent
SPACE = ROOT / "examples" / "space"


def test_a_space_shows_the_model_that_its_variable_names(tmp_path, monkeypatch):
    pytest.importorskip("gradio")
    monkeypatch.setenv("GRADIO_TEMP_DIR", "")  # restored afterwards
    monkeypatch.setenv("GRADIO_ANALYTICS_ENABLED", "")
    monkeypatch.setenv("AIB_RUN", "hf:me/circles")
    with serving(monkeypatch, tmp_path / "cache") as hub:
        hub.upload("me/circles", make_run(tmp_path / "run"))
        app = runpy.run_path(str(SPACE / "app.py"))
    page = app["demo"]
    assert "circles" in str(page.get_config_file()) and not page.is_running
    signature(page.launch).bind(**app["page_options"]())


def test_the_files_of_the_space_fit_together():
    head = metadata_load(SPACE / "README.md")
    assert (head["sdk"], head["app_file"]) == ("gradio", "app.py")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [gradio] = map(Requirement, project["optional-dependencies"]["viewer"])
    assert head["sdk_version"] in gradio.specifier
    wanted = Requirement((SPACE / "requirements.txt").read_text().strip())
    assert wanted.name == project["name"] and wanted.extras == {"viewer"}
    assert __version__ in wanted.specifier
