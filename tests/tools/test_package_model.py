"""Packaged models, and how a run becomes one."""

import json
import re
import shutil
from dataclasses import replace
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
from aib.data import Batches
from aib.data.specs import class_names
from aib.runs.pretrained import packaged_models
from aib.training.train import train
from tests.data import official
from tools import package_model
from tools.package_model import CARD, card, main as package_main, package


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


def test_the_card_states_what_was_measured_with_the_packaged_weights(packaged, tmp_path):
    run, small = packaged[0], shutil.copytree(packaged[1], tmp_path / "small")
    assert "without an evaluation" in (small / CARD).read_text()
    data = json.loads((run / "config.json").read_text())["settings"]["data"]
    words = ["--data", data, "--workers", "0"]
    assert main(["eval", str(small), *words]) == 0
    assert main(["eval", str(small), *words, "--teacher", str(run)]) == 0
    words += ["--images", "6", "--quick", "--foreign", "shapes"]
    assert main(["interpret", str(small), *words]) == 0
    package_main(["--card", str(small)])
    [found] = json.loads((small / "evaluation.json").read_text()).values()
    assert found["data"] == "folder:photos" and found["agreement"] > 90  # the same, rounded
    text = (small / CARD).read_text()
    assert "top-1 error, % | agreement with the teacher, % |" in text
    assert f"| photos | {found['images']:,} | {found['top1_error']:.2f} (" in text
    assert re.search(r"measured on 6 images of [^,]*, split train\)\n", text)
    for words in ("--model tiny_aib_qt", "--width 0.25", "license: cc-by-4.0\n", "- From \\*here"):
        assert words in text
    assert all(n in text for n in aib.from_pretrained(small).preprocessing.class_names)
    for path in small.glob("*.json"):
        assert str(tmp_path) not in path.read_text()
    package(run, small)  # other weights: what was measured is gone
    assert not (small / "evaluation.json").exists() and not (small / "interpret.json").exists()


def test_a_student_of_imagenet_s_classes_is_packaged_with_their_numbers(tmp_path, monkeypatch):
    """It is measured on images without labels, or in folders named by class indices."""
    plain = aib.create_model("lite0", 1000, 224, width=0.1)
    plain.preprocessing = replace(plain.preprocessing, class_names=class_names(1000))
    plain.save_pretrained(tmp_path / "teacher")
    photos = official.write_folder(tmp_path / "photos", classes=2, side=32)
    test = official.write_folder(tmp_path / "test", classes=2, per_class=2)
    for number, index in enumerate(("5", "517")):
        (test / f"class_{number}").rename(test / index)
    settings = Settings(
        data=f"folder:{photos}:image_size=32", model="lite0_masked", distill=1.0,
        teacher=str(tmp_path / "teacher"), epochs=1, batch_size=2, lr=1e-3, accelerator="cpu",
        workers=0,
    )  # fmt: skip
    train(settings.updated(width=0.1), tmp_path / "run")
    small = tmp_path / "small"
    package(tmp_path / "run", small)
    config = json.loads((small / "config.json").read_text())
    assert config["trained"]["wordnet"][134] == "n02012849"
    assert config["preprocessing"]["class_names"][134] == "crane (bird)"
    words = ["--teacher", str(tmp_path / "teacher"), "--workers", "0"]
    for data in (f"folder:{photos}:labels=no", f"folder:{test}"):
        assert main(["eval", str(small), "--data", data, *words]) == 0
        study = ["interpret", str(small), "--data", data, *words, "--out", f"{tmp_path}/study"]
        assert main([*study, "--only", "swaps", "--overwrite", "--foreign", "shapes"]) == 0
        measured = json.loads((tmp_path / "study/interpret.json").read_text())
        found = list(json.loads((small / "evaluation.json").read_text()).values())[-1]
        assert measured["accuracy"] == pytest.approx(100 - found["top1_error"])
        assert measured["reliance"] and not measured["transplant"]
    unlabelled, labelled = json.loads((small / "evaluation.json").read_text()).values()
    assert unlabelled["agreement"] == pytest.approx(100 - unlabelled["top1_error"])
    assert labelled["images"] == 4 and labelled["classes"] == "matched"

    monkeypatch.setattr(package_model, "SHARES", (0.0, 0.3))
    package(tmp_path / "run", small, mixed=(str(tmp_path / "teacher"), str(photos)))
    text = json.loads((small / "config.json").read_text())["trained"]["notes"][-1]
    costs = [float(cost) for cost in re.findall(r"([\d.]+) at ", text)]
    share = (0.0, 0.3)[costs.index(min(costs))]
    assert f" {share:.0%} the teacher's" in text
    own, first, mixed = (
        load_file(tmp_path / name / "model.safetensors") for name in ("run", "teacher", "small")
    )
    for name, value in mixed.items():
        before = own[name]
        if name.startswith(("body.0.", "head.")) and before.is_floating_point():
            start = first[name.replace("body.0.", "stem.")]
            before = (1 - share) * before + share * start
        torch.testing.assert_close(value.float(), before.float(), atol=1e-4, rtol=1e-3)

    images = aib.data.load(f"folder:{photos}:labels=no", holdout=0)
    logits = []
    for folder in (small, tmp_path / "teacher"):  # each at its own size
        model = aib.from_pretrained(folder).eval()
        batches = Batches(images.prepared_for(model.preprocessing), 8, train=False)
        with torch.inference_mode():
            out = model(next(iter(batches.epoch(0)))[0], deterministic=True)
        logits.append(out.logits.reshape(8, 1000).double())
    found, wanted = (values.softmax(-1) for values in logits)
    cost = (wanted * (wanted / found).log()).sum(-1).mean().item()
    assert cost == pytest.approx(min(costs), abs=2e-3)  # the weights are rounded


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
    assert len(yaml.safe_load(front)) == 3
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
    assert (folder / "model.safetensors").stat().st_size <= 16_000_000
    assert (folder / CARD).read_text(encoding="utf-8") == card(folder)
    recipe = json.loads((folder / "config.json").read_text())["trained"]["recipe"]
    if name in PRESETS:
        assert {**PRESETS[name].recipe, "init": recipe.get("init")} == recipe
