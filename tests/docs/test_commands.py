"""Every command shown on the pages is run, small, or where that cannot be is read and checked."""

import re
import shutil
import socket
import sys
import tomllib
import urllib.request
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch.distributed.run import get_args_parser

import aib
from aib import cli
from aib.commands import train as train_command
from aib.data.specs import CIFAR10
from tests.docs.blocks import PAGES, ROOT, Command, commands, name_of
from tests.docs.ways import WAYS, Way, way_of
from tests.docs.workshop import (
    pretend_they_are_whole,
    write_data,
    write_package,
    write_photos,
    write_run,
)
from tests.helpers import run_process
from tests.models.networks import libraries
from tests.runs.server import serving
from tests.viewer.fixtures import served
from tools.results.__main__ import main as results_main

# A command on two pages is run once.
COMMANDS = list({c.text: c for page in PAGES for c in commands(page)}.values())
PROGRAMS = {"aib", "make", "pip", "python", "srun", "torchrun"}


def text_of(command: Command) -> str:
    return command.text


def is_only_parsed(command: Command) -> bool:
    """What needs a cluster or takes days; the tests of settings and of plans read those."""
    way = way_of(command)
    return way is not None and way.how == "parse"


def marked(command: Command):
    way = way_of(command)
    marks = [pytest.mark.slow] if way is not None and way.slow else []
    return pytest.param(command, marks=marks, id=command.text)


@pytest.fixture(scope="module")
def data_root(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("data")
    write_data(root)
    return root


@pytest.fixture
def workshop(tmp_path, monkeypatch, data_root) -> Path:
    """The current folder of a reader who has photographs, data sets and runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AIB_DATA", str(data_root))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    pretend_they_are_whole(monkeypatch)
    write_photos(tmp_path)
    libraries.install(monkeypatch)
    (tmp_path / "my_module.py").write_text("from tests.helpers import SmallNet as build\n")
    shutil.copytree(ROOT / "results", tmp_path / "results")
    return tmp_path


@pytest.fixture
def package(workshop, monkeypatch) -> Path:
    """A narrow model in place of the packaged one."""
    write_package(workshop / "packaged")
    monkeypatch.setattr("aib.runs.pretrained.PACKAGED", workshop / "packaged")
    return workshop / "packaged" / "pets_masked"


@pytest.fixture
def hub(workshop, monkeypatch):
    """The Hub, with a run of the workshop's photographs."""
    write_run(workshop / "photos_of_birds")
    with serving(monkeypatch, workshop / "cache") as served:
        served.upload("me/birds", workshop / "photos_of_birds")
        yield served


def test_commands_were_found():
    assert len(COMMANDS) > 30 and {c.words[0] for c in COMMANDS} <= PROGRAMS


@pytest.mark.parametrize("command", COMMANDS, ids=text_of)
def test_each_command_has_a_way_to_run_it(command):
    assert way_of(command) is not None, f"{command.page} shows a command that no test runs"


def test_no_way_is_left_over():
    used = {way_of(command) for command in COMMANDS}
    assert [way.pattern for way in WAYS if way not in used] == []


@pytest.mark.filterwarnings("ignore:.* cannot judge maps")  # runs are not trained
@pytest.mark.parametrize("command", [marked(c) for c in COMMANDS if not is_only_parsed(c)])
def test_it_runs(command, workshop, request, capsys):
    way = way_of(command)
    assert way is not None
    for package in way.needs:
        pytest.importorskip(package)
    if "hf:me/birds" in command.words:
        request.getfixturevalue("hub")
    if way.small_package:
        request.getfixturevalue("package")
    if way.how == "here":
        code = cli.main(words_of(command, way)[1:])
        assert code == way.code, capsys.readouterr().err
    elif way.how == "process":
        run_in_processes(words_of(command, way), workshop)
    elif way.how == "view":
        words = [word for word in words_of(command, way)[2:] if word != "--no-browser"]
        with served(*words) as url, urllib.request.urlopen(url, timeout=120) as answer:
            assert answer.status == 200 and b"aib view" in answer.read()
    elif way.how == "make":  # dry: most of them would run this very test
        run_process(command.words[0], "-n", *command.words[1:], cwd=ROOT)
    elif way.how == "tool":
        results_main(words_of(command, way)[3:])
    else:
        assert way.how == "example"  # test_examples.py runs every one of them
        assert (ROOT / command.words[1]).parent == ROOT / "examples"
        assert (ROOT / command.words[1]).is_file()


@pytest.mark.parametrize(
    "command",
    [c for c in COMMANDS if "aib train" in c.text and "--list" not in c.words],
    ids=text_of,
)
def test_a_training_has_valid_settings(command, monkeypatch):
    """Also those that are slow or cannot run here; the launcher must agree with the settings."""
    taken: list[train_command.Options] = []
    monkeypatch.setattr(train_command, "start", lambda options, name: taken.append(options))
    words = command.words
    assert cli.main(words[words.index("aib") + 1 :]) == 0
    [options] = taken
    if words[0] == "torchrun":
        launcher = get_args_parser().parse_args(words[1:])
        assert (launcher.module, launcher.training_script) == (True, "aib")
        assert int(launcher.nproc_per_node) == options.settings.devices
        assert int(launcher.nnodes.split(":")[-1]) == options.settings.nodes
    if words[0] == "srun":
        asked = dict(pairwise(words))
        assert int(asked["--ntasks-per-node"]) == options.settings.devices
        assert int(asked["--nodes"]) == options.settings.nodes


@pytest.mark.parametrize(
    "command",
    [c for c in COMMANDS if c.text.startswith("aib sweep") and is_only_parsed(c)],
    ids=text_of,
)
@pytest.mark.usefixtures("workshop")
def test_a_sweep_has_a_valid_plan(command, capsys):
    assert cli.main([*command.words[1:], "--list"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    # The pages state how many runs the paper's figure takes.
    assert last == ("42 runs" if "--seeds" in command.words else "2 runs")


def test_the_readme_s_commands_for_own_images_follow_on_one_another(workshop, package):
    """With the run that the first of them made, not with one that stood ready."""
    shown = [c for c in commands(ROOT / "README.md") if "runs/photos" in c.words]
    assert [c.words[1] for c in shown] == ["train", "eval", "explain"]
    for command in shown:
        way = way_of(command)
        assert way is not None
        words = [*expanded(command.words), *way.add.split()]
        assert cli.main(words[1:]) == 0
    assert len(list(workshop.glob("explanations/?.png"))) == 3
    # As README says, the packaged model's features and map stay, and the head is trained.
    before, after = aib.from_pretrained(package), aib.from_pretrained("runs/photos")
    same = {n for n, v in after.state_dict().items() if torch.equal(v, before.state_dict()[n])}
    assert same == {n for n in after.state_dict() if not n.startswith("head.")}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_extras_exist(page):
    for asked in re.findall(r"pip install 'aib\[(.+?)\]'", page.read_text()):
        assert set(asked.split(",")) <= known_extras(), f"{name_of(page)}: {asked}"


def test_errors_name_extras_that_exist():
    sources = [path.read_text() for path in (ROOT / "aib").rglob("*.py")]
    asked = {name for s in sources for name in re.findall(r"(?:extra|install)\([\"'](\w+)", s)}
    assert {"onnx", "posthoc"} <= asked <= known_extras()
    assert not any("'.[" in source for source in sources)  # users have no checkout


def known_extras() -> set[str]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return set(tomllib.load(file)["project"]["optional-dependencies"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [c for c in COMMANDS if c.text.startswith("aib data fetch")], ids=text_of
)
def test_fetch_for_real(command, tmp_path):
    host = re.split("[/:]+", CIFAR10.archives[0].url)[1]
    try:
        socket.create_connection((host, 443), timeout=10).close()
    except OSError:
        pytest.skip(f"{host} cannot be reached")
    assert cli.main([*command.words[1:], "--root", str(tmp_path)]) == 0
    assert cli.main(["data", "verify", command.words[3], "--root", str(tmp_path)]) == 0


def words_of(command: Command, way: Way) -> list[str]:
    """Words as a shell splits them, with options that make it small; writes the runs it needs."""
    words = command.words
    made_by_it = {words[i + 1] for i, word in enumerate(words) if word == "--out"}
    for word in words:
        if re.fullmatch(r"runs/\w+", word) and word not in made_by_it:
            write_run(Path(word))
    return expanded(words) + way.add.split()


def expanded(words: list[str]) -> list[str]:
    """Globs as the shell has them: the names that match, or the word itself."""
    names = {w: sorted(map(str, Path().glob(w))) for w in words if "*" in w}
    return [name for word in words for name in names.get(word) or [word]]


def run_in_processes(words: list[str], folder: Path) -> None:
    program = {"torchrun": ["-m", "torch.distributed.run"], "aib": ["-m", "aib"]}[words[0]]
    printed = run_process(sys.executable, *program, *words[1:], cwd=folder, PYTHONPATH=str(ROOT))
    if "train" in words:
        assert printed.count("top-1 error") == 1  # only the first process prints
    else:
        assert list(folder.glob("runs/*/sweep_results.json"))


@pytest.mark.slow
def test_the_demo_writes_its_report(tmp_path):
    run_process(sys.executable, "-m", "tools.demo", cwd=tmp_path, PYTHONPATH=str(ROOT))
    assert list(tmp_path.glob("runs/demo-*/report.html"))
