"""The built wheel stands on its own."""

import sys
import tomllib
import zipfile
from functools import partial
from pathlib import Path

import pytest
import yaml
from PIL import Image

from aib.version import __version__
from tests.helpers import run_process

ROOT = Path(__file__).parent.parent
run = partial(run_process, PYTHONPATH="")


def test_every_requirement_is_pinned():
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    wanted = {name.split(">")[0].lower().replace("_", "-") for names in lists for name in names}
    wanted = {name for name in wanted if not name.startswith("aib[")}  # extras of its own
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in lines if "==" in line}
    assert wanted <= pinned


def test_the_citation_has_the_version():
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == __version__


def test_workflows_parse_and_test_the_supported_pythons():
    folder = ROOT / ".github" / "workflows"
    jobs = {path.stem: yaml.safe_load(path.read_text())["jobs"] for path in folder.iterdir()}
    assert {"test", "docs", "release"} <= set(jobs)
    assert all(
        "runs-on" in job and job["steps"] for found in jobs.values() for job in found.values()
    )
    with (ROOT / "pyproject.toml").open("rb") as file:
        named = tomllib.load(file)["project"]["classifiers"]
    versions = [name.rpartition(" ")[2] for name in named if ":: Python :: 3." in name]
    assert jobs["test"]["test"]["strategy"]["matrix"]["python"] == versions


@pytest.mark.slow
def test_the_wheel_installs_into_an_empty_environment(tmp_path: Path):
    run(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path, ROOT, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "aib/models/bottleneck.py" in names
    assert {"aib/py.typed", "aib/data/imagenet_classes.csv"} <= set(names)
    assert "aib/pretrained_models/lite2_masked/model.safetensors" in names
    assert not any(name.startswith(("tests", "examples", "tools")) for name in names)
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    scripts = tmp_path / "venv" / "bin"
    constraints = ROOT / "constraints.txt"
    run(scripts / "python", "-m", "pip", "install", "-q", "-c", constraints, wheel, cwd=tmp_path)
    assert "vgg_aib_qt" in run(scripts / "aib", "models", cwd=tmp_path)
    assert "shapes" in run(scripts / "aib", "data", "list", cwd=tmp_path)
    Image.new("RGB", (50, 40), "green").save(tmp_path / "photo.png")
    assert "photo" in run(scripts / "aib", "explain", "photo.png", cwd=tmp_path)
