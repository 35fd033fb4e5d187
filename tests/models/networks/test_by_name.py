"""Networks by name: timm's, torchvision's, and a user's own function."""

import json
import sys

import pytest
import torch
from torch import nn

import aib
from aib.cli import main
from aib.config.settings import Settings
from aib.models.networks.by_name import build_network
from aib.models.networks.grid import layer_grids
from aib.models.networks.layers import default_layer
from aib.training.train import build_model, load_data
from tests.data import official
from tests.helpers import SmallNet, images
from tests.models.networks import libraries

C = 3
SHORT = "--epochs 1 --batch-size 4 --workers 0 --accelerator cpu --lr 0.01".split()
# A name, and by hand its default layer and the side of its map for 32 x 32 pixels.
NETWORKS = {
    "timm:resnet18": ("layer3", 4),
    "timm:vit_tiny_patch16_224": ("blocks.1", 4),
    "timm:vit_small_patch14_dinov2": ("blocks.1", 4),
    "torchvision:resnet18": ("layer3", 4),
    "torchvision:vit_b_16": ("encoder.layers.encoder_layer_2", 4),
}
BUILD = """
from pathlib import Path
from tests.helpers import SmallNet

Path("imported").touch()

def build():
    return SmallNet()
"""


@pytest.fixture
def hub(monkeypatch):
    return libraries.install(monkeypatch)


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """A folder of three classes in the current folder, and a module of the user's own."""
    monkeypatch.chdir(tmp_path)
    official.write_folder(tmp_path / "photos" / "train")
    official.write_folder(tmp_path / "photos" / "test", per_class=2)
    (tmp_path / "my_module.py").write_text(BUILD)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_module", raising=False)
    yield "folder:photos"
    sys.modules.pop("my_module", None)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_by_name_is_masked_saved_and_loaded_by_its_name(name, hub, tmp_path):
    pretrained = "resnet" not in name
    model = aib.attach(name, num_classes=C, masked=True, pretrained=pretrained)
    at, side = NETWORKS[name]
    recipe = json.loads(json.dumps(model.recipe))
    assert (recipe["backbone"], recipe["pretrained"], recipe["at"]) == (name, pretrained, at)
    assert len(hub.downloads) == pretrained
    x = images()
    model.train()(x)
    out = model.eval()(x, deterministic=True)
    copied = "vit" not in name  # which looks twice, on the layer's grid
    assert model.recipe["propose"] == ("copy" if copied else "twice")
    side = 2 * side if copied else side
    assert out.attention.mu.shape == (2, side, side) and out.logits.shape == (2, C)
    model.save_pretrained(tmp_path)
    hub.online = False
    loaded = aib.from_pretrained(tmp_path)
    assert torch.equal(loaded(x, deterministic=True).logits, out.logits)
    assert loaded.recipe == model.recipe and loaded.preprocessing == model.preprocessing


@pytest.mark.parametrize(
    ("backbone", "options", "message"),
    [
        ("my_module:build", {"at": "0", "pretrained": True}, "pretrained is for"),
        (nn.Sequential(), {"at": "0", "pretrained": True}, "pretrained is for"),
        ("timm:resnet9000", {}, "timm has no model 'resnet9000'; did you mean resnet"),
        (
            "torchvision:raft_large",
            {"at": "x"},
            "torchvision has no model 'raft_large'",
        ),  # no classifier
        ("timm:", {"at": "0"}, "timm: needs the name of a model"),
        ("timm:sequencer2d_s", {}, "no default layer"),
        ("timm:resnet18", {"at": "layer9"}, "no layer 'layer9'"),
        (nn.Sequential(), {}, "no default layer"),
        ("my-module:build", {"at": "x"}, "written my_module:build"),
        ("no_such_module:build", {"at": "x"}, "No module named 'no_such_module'"),
        ("os:getcwd", {"at": "x"}, "must return an nn.Module"),
    ],
)
def test_a_wrong_name_is_an_error(backbone, options, message, hub):
    with pytest.raises(aib.AibError, match=message):
        aib.attach(backbone, num_classes=C, **options)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--model timm:resnet18 --width 0.5", "no option 'width'"),
        ("--model timm:resnet18 --area 0.5", "no option 'area'"),
        ("--model tiny_aib --masked", "masked is for networks"),
        ("--model timm:resnet18 --backbone my_module:build", "leave out one of them"),
    ],
)
def test_flags_that_do_not_fit_a_network_are_an_error(flags, message, photos, hub, capsys):
    assert main(["train", "--data", photos, *flags.split(), *SHORT, "--out", "x"]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", ["timm:resnet18", "torchvision:resnet18"])
def test_a_network_by_name_is_the_network_of_its_library(name, hub):
    """Weights, image size and normalisation, against the library itself."""
    network = build_network(name, pretrained=True)
    model = aib.attach(name, at="layer2", num_classes=C, pretrained=True)
    assert torch.equal(model.tail.layer1[0].conv1.weight, network.layer1[0].conv1.weight)
    policy = model.preprocessing
    assert (policy.image_size, policy.mean, policy.std) == (32, libraries.MEAN, libraries.STD)
    assert aib.attach(name, num_classes=C, image_size=64).preprocessing.image_size == 64


def test_a_name_in_a_file_may_be_of_a_library_only(hub, tmp_path, monkeypatch):
    aib.attach("timm:resnet18", num_classes=C).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    for name, words in {
        "timm:../../x": "timm: needs the name of a model",
        "timm:hf-hub:me/mine": "timm: needs the name of a model",
        "timm:resnet19": "timm has no model 'resnet19'; did you mean resnet18",
        "antigravity:geohash": "this model needs --backbone antigravity:geohash",
    }.items():
        config["model"]["backbone"] = name
        path.write_text(json.dumps(config))
        with pytest.raises(aib.AibError, match=words):
            aib.from_pretrained(tmp_path)
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize("name", ["timm:resnet18", "torchvision:resnet18"])
def test_missing_weights_and_a_missing_library_are_errors(name, hub, monkeypatch):
    hub.online = False
    with pytest.raises(aib.AibError, match="could not be loaded .*local cache"):
        aib.attach(name, num_classes=C, pretrained=True)
    for library in ("timm", "timm.data", "torchvision.models"):
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(aib.AibError, match=r"networks need \w+: pip install '.*\[timm\]'"):
        aib.attach(name, num_classes=C)


def test_a_network_is_trained_by_name_and_opened_by_commands(photos, hub, capsys):
    flags = "--model timm:resnet18 --masked --pretrained --area 0.5".split()
    assert main(["train", "--data", photos, *flags, *SHORT, "--out", "run"]) == 0, (
        capsys.readouterr().err
    )
    hub.online = False
    model = aib.from_pretrained("run")
    assert model.num_classes == 3 and model.preprocessing.mean == libraries.MEAN
    assert model.preprocessing.class_names == ("class_0", "class_1", "class_2")
    assert model.recipe["area"] == 0.5
    assert hub.downloads == ["resnet18"]
    assert main(["eval", "run", "--samples", "1x1"]) == 0, capsys.readouterr().err


def test_an_evaluator_is_attached_to_a_network_of_your_own(tmp_path):
    model = aib.attach(SmallNet(), "features", C, masked=True, evaluator=True, image_size=32)
    opened = model.train()(images(4)).mask.mean((2, 3))  # random masks
    assert opened.unique().numel() > 1
    model.eval().save_pretrained(tmp_path)
    loaded = aib.from_pretrained(tmp_path, backbone=SmallNet())
    x, mask = images(), (torch.arange(32) < 8).float().expand(2, 32, 32)
    changed = torch.where(mask[:, None] == 1, x, 9.0)
    first, *others = (loaded(i, deterministic=True, mask=mask).logits for i in (x, changed, -x))
    assert torch.equal(first, others[0]) and not torch.equal(first, others[1])
    assert torch.equal(first, model(x, deterministic=True, mask=mask).logits)


def test_a_resumed_run_needs_no_pretrained_weights(photos, hub):
    s = Settings(data=f"{photos}:image_size=48", model="timm:resnet18", pretrained=True)
    data = load_data(s, "train")
    hub.online = False
    model = build_model(s, data, resume=True)
    assert model.recipe["pretrained"] is True and model.preprocessing.image_size == 48
    with pytest.raises(aib.AibError, match="could not be loaded"):
        build_model(s, data)


def test_an_own_network_is_imported_only_where_the_user_names_it(photos, capsys, tmp_path):
    flags = ["--backbone", "my_module:build", "--at", "features"]
    size = f"{photos}:image_size=16"
    assert main(["train", "--data", size, *flags, *SHORT, "--out", "run"]) == 0
    sys.modules.pop("my_module")
    (tmp_path / "imported").unlink()
    capsys.readouterr()
    for command in ("eval run", "explain photos/test/class_0 --run run", "train --resume run"):
        assert main(command.split()) == 2
        assert "needs --backbone my_module:build" in capsys.readouterr().err
    assert not (tmp_path / "imported").exists() and "my_module" not in sys.modules
    assert main(["eval", "run", "--samples", "1x1", *flags[:2]]) == 0, capsys.readouterr().err
    assert (tmp_path / "imported").exists()
    assert aib.from_pretrained("run", backbone="my_module:build").recipe["backbone"] == flags[1]


def test_layers_inside_blocks_or_without_a_grid_are_left_out(hub):
    grids = {one.name: one for one in layer_grids(build_network("timm:resnet18"), 32)}
    assert (grids["layer2"].channels, grids["layer2"].grid) == (12, (8, 8))
    assert "layer1.0" in grids and not {"layer1.0.conv1", "avgpool", "fc"} & set(grids)


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("timm:tf_mobilenetv3_small_100", "blocks.3"),
        ("timm:resnetv2_50", None),
        ("timm:resnet50.a1_in1k", "layer3"),
        ("timm:swinv2_cr_tiny_224", "stages.2"),
        ("torchvision:mobilenet_v3_small", "features.8"),
    ],
)
def test_the_first_pattern_that_fits_gives_the_layer(name, at):
    assert default_layer(name) == at
