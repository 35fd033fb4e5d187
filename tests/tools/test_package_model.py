"""Packaged models, and how a run becomes one."""

import json
import re
import shutil
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
import torch
import yaml
from markdown_it import MarkdownIt
from safetensors.torch import load_file

import aib
from aib.cli import main
from aib.config.options import ModelOptions
from aib.config.presets import PRESETS
from aib.config.settings import Settings
from aib.data.specs import class_names
from aib.runs.pretrained import packaged_models
from aib.training.train import train
from tests.data import official
from tools.package_model import CARD, card, package, replace_maps


@pytest.fixture(scope="module")
def packaged(tmp_path_factory) -> tuple[Path, Path]:
    """A run of one epoch, and the packaged model made from it."""
    folder = tmp_path_factory.mktemp("package")
    photos = official.write_folder(folder / "photos", per_class=8, side=32)
    settings = Settings(
        data=f"folder:{photos}:image_size=32", model="tiny_aib_qt", epochs=1,
        batch_size=8, accelerator="cpu", workers=0, options=ModelOptions(width=0.25),
    )  # fmt: skip
    train(settings, folder / "run")
    package(folder / "run", folder / "small", license="cc-by-4.0", notes=("From *here*.",))
    return folder / "run", folder / "small"


def test_the_weights_are_the_runs_in_half_precision(packaged):
    run, small = packaged
    before, after = (load_file(folder / "model.safetensors") for folder in (run, small))
    assert sorted(before) == sorted(after)
    for name, value in before.items():
        assert after[name].dtype == (torch.float16 if value.is_floating_point() else value.dtype)
        assert torch.equal(after[name], value.to(after[name].dtype))
    model = aib.from_pretrained(small)
    assert next(model.parameters()).dtype == torch.float32  # computed in full precision


def test_the_card_states_what_was_measured(packaged):
    run, small = packaged
    before, found = json.loads((small / "evaluation.json").read_text()).values()
    [stored] = json.loads((run / "evaluation.json").read_text()).values()
    assert before == stored | {"weights_sha256": None, "data": "folder:photos"}
    weights = (small / "model.safetensors").read_bytes()
    assert found["weights_sha256"] == sha256(weights).hexdigest()
    text = (small / CARD).read_text()
    assert f"{before['images']:,} | {before['top1_error']:.2f} (" in text
    assert f"val | {found['images']:,} | {found['top1_error']:.2f} (" in text
    for words in ("--model tiny_aib_qt", "--width 0.25", "license: cc-by-4.0\n", "- From \\*here"):
        assert words in text
    assert all(n in text for n in aib.from_pretrained(small).preprocessing.class_names)


def test_a_student_of_imagenet_s_classes_is_packaged_with_their_numbers(tmp_path):
    """Measured by the agreement with its teacher, or on images whose folders are class indices."""
    plain = aib.create_model("lite0", 1000, 224, width=0.1)
    plain.preprocessing = replace(plain.preprocessing, class_names=class_names(1000))
    plain.save_pretrained(tmp_path / "teacher")
    official.write_folder(tmp_path / "photos", classes=2, side=32)
    official.write_folder(tmp_path / "test", classes=2, per_class=2)
    for number, index in enumerate(("5", "517")):
        (tmp_path / f"test/class_{number}").rename(tmp_path / "test" / index)
    settings = Settings(
        data=f"folder:{tmp_path}/photos:image_size=32", model="lite0_masked", distill=1.0,
        teacher=str(tmp_path / "teacher"), epochs=1, batch_size=2, lr=1e-3, accelerator="cpu",
        workers=0,
    )  # fmt: skip
    train(settings.updated(width=0.1), tmp_path / "run")
    before, after = packaged_evaluations(tmp_path, None)
    assert before["data"] == after["data"] == "folder:photos"
    assert after["agreement"] == pytest.approx(100 - after["top1_error"])
    test = f"folder:{tmp_path}/test"
    with pytest.raises(aib.AibError, match="was not evaluated on"):
        packaged_evaluations(tmp_path, test)
    assert main(["eval", str(tmp_path / "run"), "--data", test, "--workers", "0"]) == 0
    before, after = packaged_evaluations(tmp_path, test)
    assert before["data"] == after["data"] == "folder:test" and after["images"] == 4
    config = json.loads((tmp_path / "small/config.json").read_text())
    assert config["trained"]["wordnet"][134] == "n02012849"
    assert config["preprocessing"]["class_names"][134] == "crane (bird)"
    assert str(tmp_path) not in (tmp_path / "small" / CARD).read_text() + json.dumps(config)


def packaged_evaluations(folder: Path, data: str | None) -> list[dict]:
    """The evaluations before and after rounding in a packaged model."""
    package(folder / "run", folder / "small", data=data)
    return list(json.loads((folder / "small/evaluation.json").read_text()).values())


def test_maps_can_be_measured_again_with_the_packaged_weights(packaged, tmp_path):
    run, small = packaged
    data = json.loads((run / "config.json").read_text())["settings"]["data"]
    words = ["--data", data, "--images", "6", "--quick", "--foreign", "shapes", "--out"]
    assert main(["interpret", str(small), *words, str(tmp_path / "study")]) == 0
    replace_maps(tmp_path / "study", small)
    assert re.search(r"measured on 6 images of [^,]*, split train\)\n", (small / CARD).read_text())
    assert main(["interpret", str(run), *words, str(tmp_path / "before")]) == 0
    with pytest.raises(aib.AibError, match="of the weights in"):
        replace_maps(tmp_path / "before", small)


NAMES = ["<script>alert(1)</script>", "*a* [b](http://example.org)", "a\n# b", "a: [b]\n---", "`|`"]


@pytest.mark.parametrize("name", NAMES)
def test_names_on_the_card_are_text_and_nothing_else(packaged, tmp_path, name):
    """Rendered, the card shows them as they are: no HTML, no links, no other front matter."""
    folder = shutil.copytree(packaged[1], tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config["preprocessing"]["class_names"][1] = name
    config["trained"]["recipe"]["data"] = f"folder:{name}"
    (folder / "config.json").write_text(json.dumps(config))
    _, front, body = card(folder).split("---\n", 2)
    assert len(yaml.safe_load(front)) == 4
    blocks = MarkdownIt("commonmark").enable(["strikethrough", "table"]).parse(body)
    assert sum(block.type == "heading_open" for block in blocks) == 5
    parts = [part for block in blocks for part in block.children or ()]
    assert {part.type for part in parts} <= {
        "text", "code_inline", "strong_open", "strong_close", "softbreak", "text_special"
    }  # fmt: skip
    shown = "".join(part.content for part in parts)
    assert f": class_0, {' '.join(name.split())}, class_2." in shown


@pytest.mark.parametrize("name", packaged_models())
def test_packaged_models_are_small_and_their_cards_are_current(name):
    folder = packaged_models()[name]
    assert (folder / "model.safetensors").stat().st_size <= 32_000_000
    assert (folder / CARD).read_text(encoding="utf-8") == card(folder)
    recipe = json.loads((folder / "config.json").read_text())["trained"]["recipe"]
    if name in PRESETS:
        assert {**PRESETS[name].recipe, "init": recipe.get("init")} == recipe
