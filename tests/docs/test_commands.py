"""Every command shown on the pages is run, small, or where that cannot be is read and checked."""

import re
import shlex
import shutil
import sys
import urllib.request
from pathlib import Path
from typing import NamedTuple

import pytest
import torchmetrics  # noqa: F401  (not beside a stand-in for torchvision)

from aib import cli
from aib.commands import train as train_command
from aib.config.settings import Settings
from tests.docs.blocks import PAGES, ROOT, commands
from tests.docs.workshop import write_data, write_package, write_photos, write_run
from tests.helpers import run_process
from tests.models.networks import libraries
from tests.runs.server import serving
from tests.viewer.fixtures import served
from tools.results.__main__ import main as results_main

COMMANDS = list(dict.fromkeys(text for page in PAGES for text in commands(page)))
SMALL = "--epochs 1 --batch-size 4 --accelerator cpu --workers 0"
NARROW = SMALL + " --width 0.0625"
TINY = "--data shapes:count=64 --batch-size 16 --width 0.25 --epochs 1"
NOT_HERE = "read and checked only"


class Way(NamedTuple):
    """How to run the commands that a pattern matches from their beginning."""

    pattern: str
    add: str = ""  # options that make it small, or NOT_HERE
    slow: bool = False


WAYS = [  # the first that matches counts
    Way("(pip install|srun|torchrun|aib train .*--devices|aib eval runs/own) ", NOT_HERE),
    Way("aib sweep .*--seeds 3", NOT_HERE),  # 42 runs
    Way("aib train --list"),
    Way("aib train --teacher (lite2|timm):", NOT_HERE),  # a full network
    Way("aib train --teacher ", SMALL),
    Way("aib train --(model timm:|backbone) ?", SMALL, slow=True),
    Way("aib train shapes_tiny --evaluator", TINY, slow=True),
    Way("aib train --data folder:photos", NARROW),
    Way("aib train ", NARROW + " --precision fp32 --no-compile", slow=True),
    Way("aib sweep ", TINY, slow=True),
    Way("aib eval ", "--workers 0"),
    Way(r"aib interpret .*--quick", "--images 8 --workers 0"),
    Way("aib interpret ", "--images 8 --subset 2 --workers 0", slow=True),
    Way("aib (export|view) ", slow=True),
    Way("aib view$", slow=True),
    Way("aib models", slow=True),
    Way("aib (explain|report|data) "),
    Way("make |python "),
]


def way_of(text: str) -> Way:
    found = next((way for way in WAYS if re.match(way.pattern, text)), None)
    assert found, f"no test runs `{text}`"
    return found


def marked(text: str):
    return pytest.param(text, marks=[pytest.mark.slow] if way_of(text).slow else [], id=text)


@pytest.fixture
def workshop(tmp_path, monkeypatch) -> Path:
    """The current folder of a reader who has photographs, data sets, runs and a narrow package."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AIB_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    write_data(tmp_path / "data", monkeypatch)
    write_photos(tmp_path)
    write_package(tmp_path / "packaged")
    monkeypatch.setattr("aib.runs.pretrained.PACKAGED", tmp_path / "packaged")
    libraries.install(monkeypatch)
    (tmp_path / "my_module.py").write_text("from tests.helpers import SmallNet as build\n")
    shutil.copytree(ROOT / "results", tmp_path / "results")
    return tmp_path


def words_of(text: str) -> list[str]:
    """Words as a shell splits them, with options that make it small; writes the runs it needs."""
    words = shlex.split(text)
    made = {words[i + 1] for i, word in enumerate(words) if word == "--out"}
    for word in words:
        if re.fullmatch(r"runs/\w+", word) and word not in made:
            write_run(Path(word))
    found = [sorted(map(str, Path().glob(w))) if "*.jpg" in w else [w] for w in words]
    return [word for names in found for word in names] + way_of(text).add.split()


@pytest.mark.filterwarnings("ignore:.* cannot judge maps")  # runs are not trained
@pytest.mark.parametrize("text", [marked(c) for c in COMMANDS if way_of(c).add != NOT_HERE])
def test_it_runs(text, workshop, monkeypatch, capsys):
    program, *words = words_of(text)
    if program == "make":  # dry: most of them would run this very test
        run_process(program, "-n", *words, cwd=ROOT)
    elif program == "python" and "tools.results" in words:
        results_main(words[2:])
    elif program == "python":  # test_examples.py and tests/tools run them
        assert (ROOT / words[0]).is_file() or words[:2] == ["-m", "tools.bench"]
    elif words[0] == "view":
        with served(*[w for w in words[1:] if w != "--no-browser"]) as url:
            assert urllib.request.urlopen(url, timeout=120).status == 200
    elif "hf:me/birds" in words:
        write_run(workshop / "photos_of_birds")
        with serving(monkeypatch, workshop / "cache") as hub:
            hub.upload("me/birds", workshop / "photos_of_birds")
            assert cli.main(words) == 0
    else:
        assert cli.main(words) == 0, capsys.readouterr().err


def test_no_way_is_left_over():
    used = {way_of(text) for text in COMMANDS}
    assert [way.pattern for way in WAYS if way not in used] == []


@pytest.mark.parametrize("text", [c for c in COMMANDS if "aib train" in c and "--list" not in c])
def test_a_training_has_valid_settings(text, monkeypatch):
    """Also those that cannot run here; the launcher must agree with the settings."""
    taken: list[Settings] = []
    monkeypatch.setattr(train_command, "start", lambda settings, *_: taken.append(settings))
    launcher, _, words = text.partition("aib ")
    assert cli.main(words.split()) == 0
    [settings] = taken
    if asked := re.search(r"--(?:nproc-per-node|ntasks-per-node) (\d+)", launcher):
        assert int(asked[1]) == settings.devices
    if asked := re.search(r"--n?nodes (\d+)", launcher):
        assert int(asked[1]) == settings.nodes


def test_the_readme_s_commands_for_own_images_follow_on_one_another(workshop):
    """With the run that the first of them made, not with one that stood ready."""
    for text in [c for c in commands(ROOT / "README.md") if "runs/photos" in c]:
        words = text.split()[1:]
        names = [sorted(map(str, Path().glob(w))) if "*" in w else [w] for w in words]
        add = [] if "--resume" in words else way_of(text).add.split()
        assert cli.main([word for part in names for word in part] + add) == 0
    assert list(workshop.rglob("interpret.json"))


@pytest.mark.slow
def test_the_demo_writes_its_report(tmp_path):
    run_process(sys.executable, "-m", "tools.demo", cwd=tmp_path, PYTHONPATH=str(ROOT))
    assert list(tmp_path.glob("runs/demo-*/report.html"))
