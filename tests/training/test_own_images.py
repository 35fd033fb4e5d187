"""Training on a user's own folders: the model chosen, what is evaluated, what is reported."""

import json
from dataclasses import replace

import pytest
import torch

import aib
from aib.cli import main
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


@pytest.mark.parametrize(("gpu", "size"), [(False, 112), (True, 224)])
def test_a_model_that_suits_the_machine_is_chosen_if_none_is_named(
    tmp_path, capsys, monkeypatch, gpu: bool, size: int
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: gpu)
    started: list[Settings] = []
    command = "aib.commands.train.start"
    monkeypatch.setattr(command, lambda settings, *_: started.append(settings))
    data = f"folder:{tmp_path}/my photos"
    main(["train", "--data", data, "--epochs", "3"])
    flags = "--model vgg_aib_masked --init pets_masked --freeze body propose"
    said = f"no --model given and {'a' if gpu else 'no'} GPU: {flags} --data '{data}:"
    assert capsys.readouterr().out == f"{said}image_size={size}'\n"
    main(["train", f"--data={data}:resize=crop", "--accelerator", "cpu"])
    main(["train", "--data", f"{data}:image_size=50", "--accelerator", "cpu"])
    main(["train", "--data", data, "--model", "wrn"])
    main(["train", "--data", "shapes"])
    assert [(s.model, s.data) for s in started] == [
        ("vgg_aib_masked", f"{data}:image_size={size}"),
        ("vgg_aib_masked", f"{data}:resize=crop,image_size=112"),
        ("tiny_aib_masked", f"{data}:image_size=50"),
        ("wrn", data),
        (Settings().model, "shapes"),
    ]
    assert started[0].epochs == 3 and started[1].optimizer == "adamw"  # a recipe for the model
    assert started[3].optimizer == Settings().optimizer
    capsys.readouterr()
    main(["train", "--data", data, "--evaluator"])  # it must not know the map
    main(["train", "--data", data, "--init", "vgg16:weights.npz"])  # has no map that could stay
    main(["train", "--data", data, "--freeze", "body"])
    main(["train", "--data", data, "--freeze"])
    assert [(s.init, s.freeze) for s in started[5:]] == [
        (None, ()),
        ("vgg16:weights.npz", ()),
        ("pets_masked", ("body",)),
        ("pets_masked", ()),
    ]
    # What is trained already is changed in smaller steps than a new head.
    assert {s.lr for s in started[5:]} == {started[0].lr / 5}
