"""The command line of `aib train`: what its flags set, and where the other settings come from."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

import aib
from aib.cli import main
from aib.commands import train as command
from aib.commands.setting_flags import GROUPS
from aib.config.presets import PRESETS
from aib.config.settings import Settings, setting_types
from aib.runs import pretrained
from tests.helpers import run_process


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings of trainings that the command would start."""
    found: list[Settings] = []
    monkeypatch.setattr(command, "start", lambda settings, folder, resume: found.append(settings))
    return found


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ("", {}),
        ("--width 0.5 --num-anchors 7 --epochs 3", {"width": 0.5, "num_anchors": 7, "epochs": 3}),
        ("--lr=0.2 --milestones 3 5", {"lr": 0.2, "milestones": (3, 5)}),
        ("--no-augment --graphs", {"augment": False, "graphs": True}),
        ("--freeze stem tail --ema None", {"freeze": ("stem", "tail")}),
    ],
)
def test_a_flag_sets_its_setting(words: str, changes: dict[str, Any], started: list) -> None:
    assert main(["train", *words.split()]) == 0
    assert started == [Settings().updated(**changes)]


@pytest.mark.parametrize("last", [False, True])
def test_flags_change_a_preset_wherever_it_stands(last: bool, started: list) -> None:
    words = "--beta 0.5 --clip None --no-compile --no-graphs".split()
    assert (
        main(["train", *words, "cifar10_fast"] if last else ["train", "cifar10_fast", *words]) == 0
    )
    changes = {"beta": 0.5, "clip": None, "compile": False, "graphs": False}
    assert started == [PRESETS["cifar10_fast"].settings.updated(**changes)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["shapes_tinny"], "did you mean shapes_tiny"),
        (["--lr", "-1"], "lr must be"),
        (["--model", "vgg", "--backbone", "a:b"], "leave out one of them"),
        (["shapes_tiny", "--resume", "run"], "leave out the rest"),
        (["--resume", "nowhere"], "nowhere is not a run"),
    ],
)
def test_what_cannot_be_trained_is_an_error(words, message, started, capsys):
    assert main(["train", *words]) == 2
    assert message in capsys.readouterr().err
    assert started == []


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ([], {"init": "lite2_masked", "epochs": 20, "data": "folder:photos:image_size=224"}),
        (["--epochs", "2", "--lr", "0.1"], {"epochs": 2, "lr": 0.1, "init": "lite2_masked"}),
        (["--freeze", "propose"], {"freeze": ("propose",), "epochs": 20}),
        (["--init", "vgg16:vgg16.pth"], {"init": "vgg16:vgg16.pth", "epochs": 20}),
        (["--evaluator"], {"init": None, "head_epochs": 0, "lr_backbone": None}),
        (["--model", "tiny"], {"model": "tiny", "init": None, "data": "folder:photos"}),
    ],
)
def test_the_user_s_own_images_get_a_model(more, expected, started, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    assert main(["train", "--data", "folder:photos", "--accelerator", "cpu", *more]) == 0
    [settings] = started
    assert {name: getattr(settings, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("images", "more", "expected"),
    [
        (250, [], {"epochs": 5, "batch_size": 30, "accumulate": 10, "area": 0.6, "width": 0.1}),
        (60, [], {"epochs": 20, "batch_size": 4, "accumulate": 1}),
        (4000, [], {"epochs": 2, "lr": 1e-3, "lr_backbone": 1e-4, "freeze_norm": True}),
        (250, ["--freeze", "body"], {"epochs": 0, "head_epochs": 100}),
    ],
)
def test_it_starts_from_the_packaged_model_in_its_form(
    images, more, expected, started, tmp_path, monkeypatch
):
    """In the form in which it is packaged, for a length by the number of images."""
    light = aib.create_model("lite0_masked", 5, 224, area=0.6, width=0.1)
    light.save_pretrained(tmp_path / "light")
    monkeypatch.setattr(pretrained, "PACKAGED", tmp_path)
    (tmp_path / "photos/train/cat").mkdir(parents=True)
    for number in range(images):
        (tmp_path / f"photos/train/cat/{number}.jpg").touch()
    assert main(["train", "--data", f"folder:{tmp_path}/photos", *more]) == 0
    [settings] = started
    values = settings.to_dict()
    assert {name: values[name] for name in expected} == expected
    assert (values["model"], values["init"]) == ("lite0_masked", "light")


def test_the_help_is_short_and_names_every_setting_in_a_group(tmp_path: Path) -> None:
    text = run_process(sys.executable, "-m", "aib", "train", "--help", cwd=tmp_path, COLUMNS="80")
    assert len(text.splitlines()) <= 120 and "None" not in text
    assert re.search(r"--epochs .*\[\*\]", text) and "depends on the model" in text
    for group, names in GROUPS.items():
        assert f"{group} options" in text
        for name in names:
            assert re.search(rf"--{name.replace('_', '-')}[ ,]", text)


def test_every_setting_has_a_flag_in_one_group() -> None:
    flags = [name for group in GROUPS.values() for name in group]
    assert sorted(flags) == sorted(setting_types())
