"""Training on a user's own folders: the model chosen, what is evaluated, what is reported."""

import json
from dataclasses import replace

import pytest
import torch

import aib
from aib.config.own_images import own_images
from aib.config.settings import Settings
from aib.errors import AibError
from aib.runs.pretrained import packaged_models
from aib.training.freeze import FrozenLayers
from aib.training.train import build_model, load_data, train
from tests.data import official
from tests.helpers import RecordingReporter


def test_test_images_that_do_not_fit_are_an_error_before_the_training(tmp_path) -> None:
    official.write_folder(tmp_path / "photos/train", classes=2)
    official.write_folder(tmp_path / "photos/test", classes=3)
    data = f"folder:{tmp_path / 'photos'}:image_size=16"
    with pytest.raises(AibError, match="lacks its class 'class_2'"):
        train(Settings(data=data, model="tiny", accelerator="cpu"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_training_reports_damaged_files_of_every_split(tmp_path) -> None:
    for split in ("train", "val", "test"):
        official.write_folder(tmp_path / "photos" / split, classes=2)
        (tmp_path / "photos" / split / "class_0/0.png").write_bytes(b"damaged")
    settings = Settings(data=f"folder:{tmp_path / 'photos'}:image_size=16", model="tiny", epochs=1)
    report = RecordingReporter()
    train(replace(settings, batch_size=4, accelerator="cpu"), tmp_path / "run", report=report)
    left_out = [message for message in report.messages if "1 unreadable file left out" in message]
    assert len(left_out) == 3 and "/val/" in left_out[1] and "/test/" in left_out[2]


def test_without_test_images_the_last_validation_is_the_result(tmp_path) -> None:
    official.write_folder(tmp_path / "photos", per_class=5)
    s = Settings(data=f"folder:{tmp_path}/photos:image_size=16", model="tiny_aib", epochs=1)
    trained = train(s.updated(width=0.25, batch_size=4, accelerator="cpu"), tmp_path / "run")
    assert (trained.evaluation.split, trained.evaluation.images) == ("val", 3)
    last = json.loads((tmp_path / "run/metrics.jsonl").read_text().splitlines()[-1])
    stored = json.loads((tmp_path / "run/evaluation.json").read_text())
    [(name, found)] = stored.items()
    assert name == f"{s.data} val" and found.pop("weights_sha256")
    assert found == {k: v for k, v in last["validation"].items() if k in found}  # evaluated once


def test_a_packaged_model_is_started_from_by_its_name(tmp_path, monkeypatch) -> None:
    """Other classes get a new head, and nothing else is trained with the default settings."""
    official.write_folder(tmp_path / "photos")
    monkeypatch.chdir(tmp_path)
    s = own_images(gpu=False, image_size=112).updated(data="folder:photos:image_size=112")
    model = build_model(s, load_data(s, "train"))
    packaged = aib.from_pretrained(packaged_models()["pets_masked"])
    trained = FrozenLayers(model, s.freeze)
    assert [n for n, p in model.named_parameters() if p.requires_grad] == [
        n for n, _ in model.named_parameters() if n.startswith("head.")
    ]
    trained.release()
    for name, value in packaged.state_dict().items():
        if not name.startswith("head."):
            assert torch.equal(model.state_dict()[name], value), name
    assert model.num_classes == 3
    with pytest.raises(AibError, match=r"the name of a packaged model \(pets_masked"):
        build_model(s.updated(init="pets"), load_data(s, "train"))
