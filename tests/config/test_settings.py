"""Settings and model options: validation, JSON, command line."""

import json
from pathlib import Path

import pytest
import torch

import aib
from aib.config.options import OPTION_NAMES, ModelOptions
from aib.config.settings import Settings, setting_types
from aib.data import ImageSet
from aib.training.train import build_model

HERE = Path("config.json")
# No option of VGG at 32 is at its default; a new option has to be added here.
OTHER_OPTIONS = ModelOptions(
    width=1 / 32, latent_dim=6, head_norm=True, num_anchors=5, modulation="residual",
    profile="released",
)  # fmt: skip


@pytest.mark.parametrize(
    "name, value",
    [
        ("epochs", 1.5), ("batch_size", 0), ("lr", float("nan")), ("beta", -1.0), ("ema", 1.0),
        ("holdout", 1.0), ("milestones", (5, 3)), ("milestones", (0, 3)), ("seed", -1),
        ("optimizer", "adam"), ("num_anchors", 1), ("profile", "ours"),
        ("area", 0.0), ("area", 1.5), ("lambda_area", -1.0), ("map_stride", 4), ("budget", "all"),
    ],
)  # fmt: skip
def test_a_bad_value_is_named(name: str, value: object) -> None:
    with pytest.raises(aib.AibError, match=f"{name} must be .*, not"):
        Settings().updated(**{name: value})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"batch_size": 10, "devices": 2, "accumulate": 3}, "batch_size 10 .* 2 devices x 3"),
        ({"graphs": True, "accumulate": 2}, "graphs cannot record"),
        ({"graphs": True, "precision": "fp16"}, "graphs cannot record"),
        ({"model": "timm:x", "pretrained": True, "init": "x.pth"}, "both name weights"),
        ({"ema_batch_norm": 5}, "add --ema"),
        ({"backbone": "tiny"}, "written module:function, not 'tiny'"),
    ],
)
def test_values_that_do_not_go_together_are_refused(values: dict, message: str) -> None:
    with pytest.raises(aib.AibError, match=message):
        Settings(**values)


def test_every_option_reaches_the_model_and_its_config() -> None:
    masked_only = {"area", "noise_std", "propose", "map_stride"}
    same = {n for n in OPTION_NAMES if getattr(OTHER_OPTIONS, n) == getattr(ModelOptions(), n)}
    assert same == masked_only | {"dropout", "pool_size"}  # of WRN, of VGG at 224
    data = ImageSet.from_tensors(torch.zeros(2, 3, 32, 32, dtype=torch.uint8), torch.arange(2))
    recipe = build_model(Settings(model="vgg_aib_qt", options=OTHER_OPTIONS), data).recipe
    assert {name: recipe[name] for name in OPTION_NAMES} == vars(OTHER_OPTIONS)
    by_keyword = aib.create_model("vgg_aib_qt", 2, **vars(OTHER_OPTIONS))
    assert by_keyword.recipe == recipe


def test_settings_survive_json() -> None:
    s = Settings(milestones=(1, 2), ema=0.5, loggers=("tensorboard",), options=OTHER_OPTIONS)
    values = json.loads(json.dumps(s.to_dict()))
    assert set(values) == set(setting_types())  # flat: no object inside
    assert Settings.from_dict(values, HERE) == s


@pytest.mark.parametrize(
    "change",
    [
        {"lr": "fast"}, {"lr": 10**400}, {"epochs": True}, {"milestones": ["a"]},
        {"optimizer": "x"}, {"optimizer": []}, {"width": "wide"},
    ],
)  # fmt: skip
def test_a_wrong_value_in_json_names_the_file_and_the_key(change: dict) -> None:
    with pytest.raises(aib.AibError, match=rf"config.json: {next(iter(change))}(\[0\])? must be"):
        Settings.from_dict(Settings().to_dict() | change, HERE)


def test_names_of_another_version_are_refused() -> None:
    values = Settings().to_dict()
    for name in ("gama", "options"):
        with pytest.raises(aib.AibError, match=f"config.json is of another version .* {name}"):
            Settings.from_dict(values | {name: 1}, HERE)
        with pytest.raises(aib.AibError, match=f"no setting '{name}'"):
            Settings().updated(**{name: 1})
    del values["workers"]  # of the machine: not on the Hub
    assert Settings.from_dict(values, HERE) == Settings()
    del values["beta"]
    with pytest.raises(aib.AibError, match="another version of aib: .* beta"):
        Settings.from_dict(values, HERE)
