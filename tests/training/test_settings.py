"""Settings: validation, JSON, presets."""

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch

import aib
from aib.configs import PRESETS, get_preset
from aib.data import ImageSet
from aib.registry import Options
from aib.settings import Settings
from aib.training.loop import fit
from aib.training.optim import beta_at, learning_rate
from aib.training.train import build_model

HERE = Path("config.json")


@pytest.mark.parametrize(
    "name, value",
    [
        ("epochs", 0),
        ("batch_size", 0),
        ("lr", 0.0),
        ("lr", float("nan")),
        ("beta", -1.0),
        ("beta", float("inf")),
        ("momentum", 1.0),
        ("clip", 0.0),
        ("ema", 1.0),
        ("holdout", 1.0),
        ("milestones", (5, 3)),
        ("seed", -1),
        ("width", 0.0),
        ("attention_noise", -0.1),
        ("accumulate", 0),
        ("log_every", 0),
    ],
)
def test_a_bad_value_is_named(name: str, value: object) -> None:
    with pytest.raises(aib.AibError, match=name):
        Settings(**{name: value})  # type: ignore[arg-type]


def test_a_batch_that_cannot_be_shared_out_is_refused() -> None:
    with pytest.raises(aib.AibError, match="batch_size 10 .* 2 devices x 3"):
        Settings(batch_size=10, devices=2, accumulate=3)


@pytest.mark.parametrize("other", [{"accumulate": 2}, {"precision": "fp16"}])
def test_what_a_graph_cannot_record_is_refused(other: dict) -> None:
    with pytest.raises(aib.AibError, match="graphs cannot record"):
        Settings(graphs=True, **other)


def test_every_setting_of_a_model_reaches_it() -> None:
    s = Settings(
        model="vgg_aib_qt",
        width=1 / 32,
        dropout=0.1,
        latent_dim=6,
        num_anchors=5,
        modulation="residual",
        attention_depth=1,
        attention_noise=0.1,
        attention_guide=True,
        tap=1,
        profile="released",
    )
    names = {f.name for f in fields(Options)} & {f.name for f in fields(Settings)}
    assert all(getattr(s, name) != getattr(Settings(), name) for name in names)
    data = ImageSet.from_tensors(torch.zeros(2, 3, 32, 32, dtype=torch.uint8), torch.arange(2))
    recipe = build_model(s, data).recipe
    assert {name: recipe[name] for name in names} == {name: getattr(s, name) for name in names}


def test_settings_survive_json() -> None:
    s = Settings(milestones=(1, 2), ema=0.5, loggers=("tensorboard",), clip=None)
    assert Settings.from_dict(json.loads(json.dumps(s.to_dict())), HERE) == s


def test_a_whole_number_in_json_may_stand_for_a_float() -> None:
    values = Settings().to_dict() | {"lr": 1}
    assert Settings.from_dict(values, HERE).lr == 1.0


@pytest.mark.parametrize(
    "change",
    [{"lr": "fast"}, {"epochs": 1.5}, {"epochs": True}, {"milestones": ["a"]}, {"optimizer": "x"}],
)
def test_a_wrong_type_in_json_names_the_file_and_the_key(change: dict) -> None:
    with pytest.raises(aib.AibError, match=f"config.json: {next(iter(change))}"):
        Settings.from_dict(Settings().to_dict() | change, HERE)


def test_an_unknown_key_is_named_and_a_missing_one_has_its_default() -> None:
    with pytest.raises(aib.AibError, match="gama"):
        Settings.from_dict(Settings().to_dict() | {"gama": 1}, HERE)
    values = Settings().to_dict()
    del values["beta"]
    assert Settings.from_dict(values, HERE) == Settings()


def test_every_field_is_documented() -> None:
    source = Path(aib.settings.__file__).read_text()
    for f in fields(Settings):
        after = source.split(f"\n    {f.name}: ", 1)[1]
        assert after.split("\n")[1].strip().startswith('"""'), f.name


def test_there_is_a_preset_for_each_of_the_papers_own_cells() -> None:
    models = ("vgg_aib", "vgg_aib_qt", "wrn_aib", "wrn_aib_qt")
    paper = {  # Table 1, the four rows called "ours"
        "cifar10": (4.28, 4.10, 3.60, 3.43),
        "cifar100": (21.56, 20.87, 17.82, 17.64),
        "cub200": (23.73, 21.83, 17.26, 15.50),
        "svhn": (3.24, 3.07, 2.76, 2.69),
    }
    for data, errors in paper.items():
        for model, error in zip(models, errors, strict=True):
            preset = PRESETS[f"{data}_{model}"]
            # The paper cuts CUB's images to the birds' boxes.
            assert preset.settings.data == (data + ":crop" if data == "cub200" else data)
            assert preset.settings.model == model
            assert preset.paper_error == error


def test_an_unknown_preset_is_answered_with_close_names() -> None:
    with pytest.raises(aib.AibError, match="cifar10_vgg_aib"):
        get_preset("cifar_vgg_aib")


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_runs_two_steps(name: str) -> None:
    preset = PRESETS[name].settings
    size = 224 if preset.data == "cub200:crop" else 32
    images = torch.randint(256, (4, 3, size, size), dtype=torch.uint8)
    data = ImageSet.from_tensors(images, torch.tensor([0, 1, 2, 1]))
    # A narrow model in small batches, uncompiled; everything else is the preset's.
    small = replace(preset, width=0.04, batch_size=2, epochs=1, compile=False, accelerator="cpu")
    model = build_model(small, data)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    fitted = fit(model, data, small)
    assert fitted.steps == 2
    assert fitted.last["lr"] == learning_rate(small, 1, 2)
    assert fitted.last["beta"] == beta_at(small, 1, 2)
    still = [name for name, p in model.named_parameters() if torch.equal(p, before[name])]
    assert still == []
    assert all(p.isfinite().all() for p in fitted.model.parameters())
