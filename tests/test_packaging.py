"""The built wheel stands on its own."""

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parent.parent


def run(*words: str | Path, cwd: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [str(w) for w in words], cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_requirement_is_pinned() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    wanted = {name.split(">")[0].lower().replace("_", "-") for names in lists for name in names}
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in lines if "==" in line}
    assert wanted <= pinned


@pytest.mark.slow
def test_the_wheel_installs_into_an_empty_environment(tmp_path: Path) -> None:
    run(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path, ROOT, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "aib/bottleneck.py" in names
    assert "aib/pretrained_models/cifar10_small/model.safetensors" in names
    assert not any(name.startswith(("tests", "examples", "tools")) for name in names)
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    scripts = tmp_path / "venv" / "bin"
    constraints = ROOT / "constraints.txt"
    run(scripts / "python", "-m", "pip", "install", "-q", "-c", constraints, wheel, cwd=tmp_path)
    assert "vgg_aib_qt" in run(scripts / "aib", "models", cwd=tmp_path)
    assert "shapes" in run(scripts / "aib", "data", "list", cwd=tmp_path)
    Image.new("RGB", (50, 40), "green").save(tmp_path / "photo.png")
    assert "photo" in run(scripts / "aib", "explain", "photo.png", cwd=tmp_path)
