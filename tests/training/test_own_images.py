"""Training on a user's own folders: the model chosen, what is evaluated, what is reported."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import aib
from aib.config.own_images import own_images
from aib.config.settings import Settings
from aib.errors import AibError
from aib.models.weights import WEIGHTS
from aib.runs import pretrained
from aib.runs.files import read_metrics
from aib.system.files import sha256
from aib.training.fabric import start_fabric
from aib.training.head import embed
from aib.training.loop import Loop
from aib.training.progress import Reporter
from aib.training.train import build_model, load_data, train
from tests.data import official
from tests.helpers import SMALL, RecordingReporter, image_set


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


def light_model(folder: Path, classes: int = 5, **options) -> aib.Classifier:
    """A small model in place of the packaged one, with BatchNorm that has seen images."""
    torch.manual_seed(3)
    model = aib.create_model("lite0_masked", classes, 224, width=0.05, **options)
    model(torch.randn(8, 3, 64, 64))
    model.eval().save_pretrained(folder / "light")
    return model


def own_settings(folder: Path, **changes) -> Settings:
    """What `aib train` takes for photographs in this folder, which it writes."""
    official.write_folder(folder / "photos", classes=3, per_class=6)
    data = {"data": f"folder:{folder}/photos:image_size=64", "accelerator": "cpu", "workers": 0}
    recipe = json.loads((folder / "light/config.json").read_text())["model"]
    return own_images(str(folder / "light"), recipe, 18, gpu=False, given=data | changes)


def test_a_head_alone_is_trained_on_cached_features(tmp_path) -> None:
    """All else stays as it is, in seconds; each image is embedded once."""
    start = light_model(tmp_path)
    s = own_settings(tmp_path, epochs=0)
    trained = train(s, tmp_path / "run")
    saved = aib.from_pretrained(tmp_path / "run").state_dict()
    changed = {n for n, v in start.state_dict().items() if not torch.equal(v, saved[n])}
    assert changed == {"head.weight", "head.bias"} and trained.model.num_classes == 3
    [row] = read_metrics(tmp_path / "run")
    assert row["step"] == 0 and row["seconds"] > 0 and 0 <= row["error"] <= 100
    again = train(s, tmp_path / "again")
    assert sha256(tmp_path / "again" / WEIGHTS) == sha256(tmp_path / "run" / WEIGHTS)
    assert again.evaluation.nll == trained.evaluation.nll


def test_embeddings_are_what_the_head_receives_in_a_pass_without_noise(tmp_path) -> None:
    model, data = light_model(tmp_path), image_set(6, 3, size=64)
    s = replace(SMALL, head_epochs=1, epochs=0)
    e, labels = embed(model, model.head, data, s, start_fabric(s), Reporter())
    x = torch.stack([data.preprocessing.normalise(image) for image in data.images])
    with torch.no_grad():
        logits = model(x, deterministic=True).logits
        torch.testing.assert_close(
            model.head(e, (1, 1), True, None)[1][0, 0].softmax(-1), logits.exp()
        )
    assert torch.equal(labels, data.labels)


def test_all_layers_follow_with_the_area_and_the_statistics_of_the_start(tmp_path) -> None:
    start = light_model(tmp_path, area=0.4)
    s = own_settings(tmp_path, epochs=2)
    data = load_data(s, "train")
    model = build_model(s, data.prepared_for(start.preprocessing))
    step = Loop(model, data.prepared_for(model.preprocessing), s).take_step
    for number in (0, 3):
        step.set_rates(number)
        assert float(step.area) == pytest.approx(0.4)
    full = {id(p) for g in step.optimizer.param_groups if g["lr_scale"] == 1 for p in g["params"]}
    assert full == {id(p) for p in model.head.parameters()}
    trained = train(s, tmp_path / "run").model.state_dict()
    kept = {n for n, v in start.state_dict().items() if torch.equal(v, trained[n])}
    assert {n for n in kept if "num_batches" not in n} == {
        n for n in trained if n.endswith(("running_mean", "running_var"))
    }


def test_a_packaged_model_is_started_from_by_its_name(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(pretrained, "PACKAGED", tmp_path)
    start = light_model(tmp_path)
    s = replace(own_settings(tmp_path), init="light")
    model = build_model(s, load_data(s, "train"))
    for name, value in start.state_dict().items():
        assert name.startswith("head.") or torch.equal(model.state_dict()[name], value), name
    assert model.num_classes == 3
    with pytest.raises(AibError, match=r"a packaged model \(light\)"):
        build_model(s.updated(init="pets"), load_data(s, "train"))
