"""Saving and loading models: the files, strict loading, errors for bad files."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import aib
from tests.helpers import SmallNet, images, small_model

ALL = [*aib.list_models(), "tiny_aib_qt"]


def make(name="tiny_aib_qt", **options):
    return small_model(name, 3, **{"width": 1 / 16, **options}).eval()


@pytest.fixture
def folder(tmp_path):
    make().save_pretrained(tmp_path)
    return tmp_path


def edit_weights(folder, change):
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors")


def edit_config(folder, change):
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))


def assert_refused(folder, match):
    """Loading raises an AibError of one line."""
    with pytest.raises(aib.AibError, match=match) as error:
        aib.from_pretrained(folder)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ALL)
def test_every_model_is_restored_exactly(name, tmp_path):
    model, x = make(name), images()
    for value in model.state_dict().values():  # not the values that a fresh model has
        value.add_(1 if not value.is_floating_point() else torch.rand_like(value) / 10)
    model.save_pretrained(tmp_path)
    loaded = aib.from_pretrained(tmp_path)
    assert not loaded.training
    assert loaded.recipe == model.recipe
    saved, read = model.state_dict(), loaded.state_dict()
    assert saved.keys() == read.keys()
    assert all(torch.equal(saved[k], read[k]) and saved[k].dtype == read[k].dtype for k in saved)
    assert torch.equal(model(x, deterministic=True).logits, loaded(x, deterministic=True).logits)


def test_the_folder_has_the_hugging_face_layout_and_nothing_pickled(folder, capfd):
    assert {p.name for p in folder.iterdir()} == {"model.safetensors", "config.json"}
    assert json.loads((folder / "config.json").read_text())["schema"] == 1
    loaded = aib.from_pretrained(folder)
    assert load_file(folder / "model.safetensors").keys() == loaded.state_dict().keys()
    assert capfd.readouterr() == ("", "")


def test_preprocessing_is_saved_with_the_weights(tmp_path):
    preprocessing = aib.Preprocessing(48, "crop", (0.1, 0.2, 0.3), (0.4, 0.5, 0.6), ("a", "é", "c"))
    make(preprocessing=preprocessing).save_pretrained(tmp_path)
    assert aib.from_pretrained(tmp_path).preprocessing == preprocessing


def test_tied_weights_are_written_once_and_restored_tied(tmp_path):
    def network():
        net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1))
        net[2].weight = net[1].weight
        return net.extend([nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)])

    model = aib.attach(network(), at="0", num_classes=3, image_size=32).eval()
    model.save_pretrained(tmp_path)
    names = load_file(tmp_path / "model.safetensors")
    assert "tail.1.weight" in names and "tail.2.weight" not in names
    loaded, x = aib.from_pretrained(tmp_path, backbone=network()), images()
    assert loaded.tail[1].weight is loaded.tail[2].weight
    assert torch.equal(model(x, deterministic=True).logits, loaded(x, deterministic=True).logits)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda w: w.pop("head.encode.bias"),
            r"1 tensor missing \(head.encode.bias first\)",
        ),
        (lambda w: w.update(extra=torch.zeros(1)), r"1 tensor unexpected \(extra first\)"),
        (lambda w: w.update({"head.encode.bias": torch.zeros(5)}), r"bias is \[5\] .* and \[64\]"),
    ],
)
def test_weights_that_do_not_fit_are_an_error(folder, change, message):
    edit_weights(folder, change)
    assert_refused(folder, message)


@pytest.mark.parametrize("damage", [lambda w: b"", lambda w: w[:-1], lambda w: b"\x80\x04."])
def test_a_truncated_file_or_one_of_another_kind_is_an_error(folder, damage):
    path = folder / "model.safetensors"
    path.write_bytes(damage(path.read_bytes()))
    assert_refused(folder, "truncated or not a safetensors file")


@pytest.mark.parametrize("content", [b"", b"[1]", b"null", b"\xff\xfe", b"[" * 100_000, b"{}"])
def test_a_config_that_is_none_is_an_error(folder, content):
    (folder / "config.json").write_bytes(content)
    assert_refused(folder, "cannot be read as JSON|not hold a JSON object|not an aib model's conf")


@pytest.mark.parametrize(
    ("part", "change", "named"),
    [
        (None, {"schema": 99}, "schema 99; this version reads 1"),
        ("model", {"name": ["vgg"]}, "."),
        ("model", {"kind": None}, "no kind of model"),
        ("model", {"num_classes": 10**15}, "."),
        ("model", {"width": None}, "width"),
        ("model", {"unknown_option": 1}, "unknown_option"),
        ("preprocessing", {"image_size": 0}, "image_size .* not 0"),
        ("preprocessing", {"image_size": 10**9}, "image_size .* not 1000000000"),
        ("preprocessing", {"mean": [0, 0]}, r"mean .* not \(0.0, 0.0\)"),
        ("preprocessing", {"std": [1, 0, 1]}, r"std\[1\] .* not 0.0"),
        ("preprocessing", {"std": [1, float("nan"), 1]}, "nan"),
        ("preprocessing", {"class_names": "abc"}, "class_names .* 'abc'"),
        ("preprocessing", {"class_names": ["a"]}, "1 class names for a model of 3 classes"),
        ("preprocessing", {"resize": []}, "resize"),
        ("preprocessing", {"extra": 1}, "extra"),
    ],
)
def test_an_invalid_value_is_an_error_that_names_it(folder, part, change, named):
    edit_config(folder, lambda c: (c[part] if part else c).update(change))
    assert_refused(folder, named)


@pytest.mark.parametrize("key", ["num_classes", "latent_dim", "quantizer"])
def test_a_file_cannot_ask_for_larger_layers_than_its_weights_have(tmp_path, key):
    """A small model is described as a large one; no memory is allocated for it."""
    options = {"image_size": 32, "quantizer": 4, "latent_dim": 8}
    model = aib.attach(SmallNet(), "features", 3, **options)
    model.save_pretrained(tmp_path)
    assert aib.from_pretrained(tmp_path, backbone=SmallNet()).num_classes == 3
    edit_config(tmp_path, lambda config: config["model"].update({key: 100_000}))
    with pytest.raises(aib.AibError, match=f"{key} is 100000, above {model.recipe[key]}"):
        aib.from_pretrained(tmp_path, backbone=SmallNet())


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_missing_file_is_an_error_and_a_pickle_is_never_opened(folder, name):
    (folder / name).unlink()
    torch.save({"weight": torch.zeros(1)}, folder / "pytorch_model.bin")
    assert_refused(folder, f"no {name}")
