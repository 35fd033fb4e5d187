"""Weights to start from: a trained model's or VGG-16's, and what must not stay random."""

import math
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import aib
from aib.config.settings import Settings
from aib.data.specs import IMAGENET_MEAN, IMAGENET_STD
from aib.training.fit import fit
from aib.training.loop import Loop
from aib.training.optim import learning_rate
from aib.training.train import build_model, load_data, train
from aib.training.warm_start import load_trained
from tests.data.official import write_folder
from tests.helpers import image_set, same_weights
from tests.models.networks.small import ResNet

WIDTH = 0.0625  # of VGG-16: 4 to 32 channels
FORMS = ["vgg", "vgg_dvib", "vgg_aib", "vgg_aib_qt", "vgg_aib_masked", "vgg_evaluator"]
CONVOLUTIONS = (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)  # in torchvision's `features`
CHANNELS = (64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512)


class Vgg16(nn.Module):
    """VGG-16 written down layer by layer, with torchvision's names."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        c = 3
        for channels in CHANNELS:
            if len(layers) in (4, 9, 16, 23):
                layers.append(nn.MaxPool2d(2, 2))
            layers += [nn.Conv2d(c, c := int(channels * WIDTH), 3, padding=1), nn.ReLU()]
        self.features = nn.Sequential(*layers, nn.MaxPool2d(2, 2))
        self.classifier = nn.Sequential(nn.Linear(7, 5), nn.ReLU(), nn.Dropout(), nn.Linear(5, 3))


@pytest.fixture
def network() -> Vgg16:
    torch.manual_seed(1)
    return Vgg16()


@pytest.fixture
def path(network: Vgg16, tmp_path: Path) -> Path:
    save_file(network.state_dict(), tmp_path / "vgg16.safetensors")
    return tmp_path / "vgg16.safetensors"


def model_of(name: str = "vgg", **options) -> aib.Classifier:
    torch.manual_seed(0)
    return aib.create_model(name, 3, 224, width=WIDTH, **options)


@pytest.mark.parametrize("name", FORMS)
def test_every_form_has_the_networks_features_after_loading(name, network, path):
    model, x = model_of(name), torch.randn(2, 3, 32, 32)
    before = {key: value.clone() for key, value in model.named_parameters()}
    report = aib.load_backbone(model, path)
    layers = model.body[0] if model.takes_mask else model.stem
    torch.testing.assert_close(layers(x), network.features[:-1](x))
    assert len(report.loaded) == 26
    for key, value in model.named_parameters():
        assert torch.equal(value, before[key]) != (key in report.loaded), key
        assert (key in report.loaded) != (key in report.fresh)
    assert set(report.ignored) == {k for k in network.state_dict() if k.startswith("classifier.")}
    assert "26 tensors loaded; fresh weights in" in str(report) and "head" in str(report)
    assert (model.preprocessing.mean, model.preprocessing.std) == (IMAGENET_MEAN, IMAGENET_STD)


@pytest.mark.parametrize("suffix", ["npz", "pth", "safetensors"])
def test_each_kind_of_file_gives_the_same_weights(suffix, network, tmp_path):
    state, path = network.state_dict(), tmp_path / f"weights.{suffix}"
    if suffix == "npz":  # only the convolutions
        np.savez(path, **{k: v.numpy() for k, v in state.items() if k.startswith("features")})
    elif suffix == "pth":
        torch.save(state, path)
    else:  # timm's names of the rest, half precision
        state["pre_logits.fc1.weight"] = state.pop("classifier.0.weight")
        save_file({k: v.half() for k, v in state.items()}, path)
    model = model_of()
    report = aib.load_backbone(model, path)
    tolerance = 1e-3 if suffix == "safetensors" else 0
    for i in CONVOLUTIONS:
        for kind in ("weight", "bias"):
            ours, theirs = f"stem.{i}.{kind}", state[f"features.{i}.{kind}"]
            torch.testing.assert_close(
                model.state_dict()[ours], theirs, rtol=tolerance, atol=tolerance
            )
    assert (report.ignored == ()) == (suffix == "npz")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: s.pop("features.28.bias"), "1 tensor missing .features.28.bias first."),
        (
            lambda s: s.update({"features.16.weight": torch.zeros(2)}),
            "1 tensor unexpected",
        ),  # VGG-19
        (lambda s: s.update({"features.0.weight": torch.zeros(4, 3, 5, 5)}), r"\[4, 3, 5, 5\]"),
        (lambda s: s["features.5.bias"].fill_(math.nan), "features.5.bias holds NaN"),
        (lambda s: s.clear(), "26 tensors missing"),
    ],
)
def test_a_file_that_does_not_fit_is_one_sentence(change, words, network, tmp_path):
    state, path = dict(network.state_dict()), tmp_path / "weights.pth"
    change(state)
    torch.save(state, path)
    model = model_of()
    with pytest.raises(aib.AibError, match=words) as caught:
        aib.load_backbone(model, path)
    assert "\n" not in str(caught.value) and same_weights(model, model_of())


@pytest.mark.parametrize("suffix", [".npz", ".pth", ".safetensors", ".zip"])
def test_damaged_and_missing_files_are_one_sentence(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"weights{suffix}"
    torch.save({"features.0.weight": Path("a class")}, path)  # no code in a file is run
    for content in (path.read_bytes(), b"PK\x03\x04 and no more", None):
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(aib.AibError, match="cannot be read") as caught:
            aib.load_backbone(model_of(), path)
        assert "\n" not in str(caught.value)


def test_other_models_do_not_take_it(path: Path) -> None:
    for name, size in (("vgg_aib", 32), ("wrn", 224)):
        with pytest.raises(aib.AibError, match=f"not {name} for images of {size}"):
            aib.load_backbone(aib.create_model(name, 3, size, width=WIDTH), path)


# --- training -----------------------------------------------------------------------------------

# Warm-up of two steps, then a cosine over the remaining two.
SETTINGS = Settings(
    model="vgg_aib_masked", epochs=2, batch_size=2, lr=0.04, lr_backbone=0.01, warmup=1.0,
    schedule="cosine", weight_decay=0.1, accelerator="cpu",
).updated(width=WIDTH)  # fmt: skip
DATA = image_set(4, num_classes=3, size=112, mean=IMAGENET_MEAN, std=IMAGENET_STD)


def test_images_are_normalised_as_the_data_say_or_as_the_family_expects() -> None:
    data = image_set(4, num_classes=3, size=112, mean=(0.4, 0.5, 0.6), std=(0.1, 0.2, 0.3))
    vgg = build_model(Settings(model="vgg").updated(width=WIDTH), data).preprocessing
    assert (vgg.mean, vgg.std) == ((0.4, 0.5, 0.6), (0.1, 0.2, 0.3))
    lite = build_model(Settings(model="lite0").updated(width=WIDTH), data).preprocessing
    assert (lite.mean, lite.std) == ((127 / 255,) * 3, (128 / 255,) * 3)
    assert lite.class_names == data.class_names


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_a_step_moves_each_parameter_by_its_own_rate(optimizer, path: Path) -> None:
    s = replace(SETTINGS, init=f"vgg16:{path}", optimizer=optimizer)
    model = build_model(s, DATA)
    step = Loop(model, DATA, s).take_step
    for number, share in enumerate((1 / 2, 1, 1, 1 / 2)):  # warm-up, warm-up, cosine
        before = {k: v.detach().double() for k, v in model.named_parameters()}
        step.optimizer.optimizer.state.clear()  # no momentum: the first step can be computed
        for p in model.parameters():
            p.grad = torch.full_like(p, 0.5)
        step.set_rates(number)
        assert learning_rate(s, number, 2) == pytest.approx(0.04 * share)
        step.optimizer.step()
        for name, p in model.named_parameters():
            rate = share * (0.01 if name.startswith("body.0.") else 0.04)
            decay = 0.1 * before[name] if p.dim() > 1 else 0
            if optimizer == "sgd":  # Nesterov's first step: g + 0.9 g
                want = before[name] - rate * 1.9 * (0.5 + decay)
            else:
                want = before[name] - rate * decay - rate * 0.5 / (0.5 + 1e-8)
            torch.testing.assert_close(p.detach().double(), want, rtol=1e-5, atol=1e-6, msg=name)


def test_lr_backbone_needs_pretrained_layers_which_else_have_the_rate_of_all(path: Path) -> None:
    with pytest.raises(aib.AibError, match="lr_backbone is for pretrained"):
        fit(model_of("vgg_aib_masked"), DATA, SETTINGS)
    s = replace(SETTINGS, init=f"vgg16:{path}", lr_backbone=None)
    step = Loop(build_model(s, DATA), DATA, s).take_step
    step.set_rates(1)
    assert {group["lr"] for group in step.optimizer.param_groups} == {0.04}


def test_a_run_resumes_and_loads_without_the_file(path: Path, tmp_path: Path, monkeypatch) -> None:
    for split in ("train", "test"):
        write_folder(tmp_path / "photos" / split, classes=2, per_class=3)
    data = f"folder:{tmp_path}/photos:image_size=112"
    s = replace(SETTINGS, data=data, init=f"vgg16:{path}", ema=0.5, workers=0, head_epochs=2)
    whole = train(s, tmp_path / "whole")
    original = Loop.end_epoch

    def stop(loop: Loop, epoch: int) -> None:
        original(loop, epoch)
        loop.save()
        raise KeyError("stop")

    with monkeypatch.context() as patched, pytest.raises(KeyError, match="stop"):
        patched.setattr(Loop, "end_epoch", stop)
        train(s, tmp_path / "part")
    path.unlink()
    resumed = train(s, tmp_path / "part", resume=True)
    for name, value in resumed.model.state_dict().items():
        torch.testing.assert_close(value, whole.model.state_dict()[name], msg=name)
    again = aib.from_pretrained(tmp_path / "part")
    assert (again.preprocessing.mean, again.preprocessing.std) == (IMAGENET_MEAN, IMAGENET_STD)
    assert '"init": "vgg16:' in (tmp_path / "part" / "config.json").read_text()


def test_other_classes_keep_all_weights_that_do_not_depend_on_them(tmp_path: Path) -> None:
    trained = aib.create_model("wrn_aib_qt", 7, width=0.1)
    trained.save_pretrained(tmp_path)
    model = aib.create_model("wrn_aib_qt", 3, width=0.1)
    report = load_trained(model, tmp_path / "model.safetensors")
    saved = trained.state_dict()
    for key, value in model.state_dict().items():
        assert (7 in saved[key].shape) == (key in report.fresh), key
        assert key in report.fresh or torch.equal(value, saved[key]), key


@pytest.mark.parametrize("propose", ["separate", "twice"])
@pytest.mark.parametrize("name", ["vgg_dvib", "vgg_aib_qt", "vgg"])
def test_a_masked_model_starts_as_the_network_it_got_its_weights_from(name, propose, tmp_path):
    """With everything open it decides as that network does, if their heads have one form."""
    torch.manual_seed(1)
    trained = aib.create_model(name, 4, width=WIDTH)
    trained(torch.randn(8, 3, 32, 32))  # moves the statistics of BatchNorm
    trained.save_pretrained(tmp_path)
    torch.manual_seed(0)
    model = aib.create_model("vgg_aib_masked", 4, propose=propose, width=WIDTH)
    report = load_trained(model, tmp_path / "model.safetensors")
    x, open_mask = torch.randn(3, 3, 32, 32), torch.ones(3, 32, 32)
    with torch.no_grad():
        features = model.eval().body(x)
        assert torch.equal(features, trained.eval().tail(trained.stem(x)))
        masked = model(x, deterministic=True, mask=open_mask).logits
    if name == "vgg_dvib":
        assert torch.equal(masked, trained(x, deterministic=True).logits)
    fresh = {one.split(".")[0] for one in report.fresh}
    assert fresh == ({"propose", "head"} if name == "vgg" else {"propose"})
    if propose == "twice":  # also with a frozen body, whose first pass no step would adapt
        with torch.no_grad():
            first = model.first_pass(model.body, x)
        assert torch.equal(first, trained.stem(x))
    ignored = {one.split(".")[0] for one in report.ignored}
    expected = {"vgg_aib_qt": {"attention", "quantizer"}, "vgg": {"head"}, "vgg_dvib": set()}
    assert ignored == expected[name]


@pytest.mark.parametrize("classes", [4, 7])
def test_a_network_starts_from_a_file_of_its_own_weights(classes, tmp_path, monkeypatch):
    """By --init, without a download; the head is loaded if it is for as many classes."""
    (tmp_path / "my_networks.py").write_text("from tests.models.networks.small import ResNet")
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(1)
    network = ResNet()
    network.fc = nn.Linear(network.fc.in_features, classes)
    torch.save(network.state_dict(), "weights.pth")
    s = Settings(data="shapes:count=24", backbone="my_networks:ResNet", init="weights.pth")
    s = replace(s, at="layer2", masked=True, lr_backbone=0.01)
    data = load_data(s, "train")
    model = build_model(s, data)
    assert torch.equal(model.body.conv1.weight, network.conv1.weight)
    assert torch.equal(model.propose.trunk.stages.conv1.weight, network.conv1.weight)
    assert {"body.conv1.weight", "propose.trunk.stages.conv1.weight"} <= model.pretrained_names
    Path("weights.pth").unlink()
    assert build_model(s, data, resume=True).pretrained_names == model.pretrained_names
    state = network.state_dict()
    weight = state.pop("conv1.weight")
    for file, error in (
        (None, "weights.pth cannot be read"),
        (state, r"1 tensor missing \(conv1.weight first"),
        (state | {"conv1.weight": weight, "more": weight}, r"1 tensor unexpected \(more first"),
        (Vgg16().state_dict(), r"missing \("),
    ):
        if file:
            torch.save(file, "weights.pth")
        with pytest.raises(aib.AibError, match=error) as caught:
            build_model(s, data)
        assert "\n" not in str(caught.value)
    with pytest.raises(aib.AibError, match="weights of lite0 do not fit my_networks:ResNet"):
        build_model(replace(s, init="lite0:weights.pth"), data)


@pytest.mark.parametrize("init", ["lite9:weights.pth", "weights.pth"])
def test_an_unknown_family_of_weights_is_an_error_that_names_the_form(init, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save(Vgg16().state_dict(), "weights.pth")
    with pytest.raises(aib.AibError, match="FAMILY:PATH"):
        build_model(Settings(model="tiny", init=init), image_set(4))


def test_a_masked_network_starts_from_the_same_one_without_a_mask(tmp_path: Path) -> None:
    """Body and copy compute what the network itself does, in plain torch."""
    torch.manual_seed(1)
    network = ResNet()
    trained = aib.attach(network, at="layer2", num_classes=4, image_size=32)
    trained(torch.randn(8, 3, 32, 32))  # moves the statistics of BatchNorm
    trained.save_pretrained(tmp_path)
    model = aib.attach(ResNet(), at="layer2", num_classes=4, masked=True, image_size=32).eval()
    report = load_trained(model, tmp_path / "model.safetensors")
    plain = ResNet().eval()
    plain.load_state_dict(trained.tail.state_dict(), strict=False)  # all but the last layer
    x = torch.randn(3, 3, 32, 32)
    with torch.no_grad():
        early = plain.layer2(plain.layer1(plain.relu(plain.bn1(plain.conv1(x)))))
        assert torch.equal(model.propose.trunk.stages(x)[1], early)
        assert torch.equal(model.body(x), plain.avgpool(plain.layer3(early)).flatten(1))
    assert {one.split(".")[0] for one in report.fresh} == {"propose", "head"}


@pytest.mark.parametrize("saved", [{"name": "wrn", "width": 0.1}, {"name": "tiny", "width": 0.25}])
def test_weights_of_another_form_are_an_error_and_change_nothing(saved, tmp_path):
    aib.create_model(num_classes=3, **saved).save_pretrained(tmp_path)
    model = aib.create_model("tiny", 3, width=0.5)
    before = deepcopy(model)
    with pytest.raises(aib.AibError, match="does not fit the model"):
        load_trained(model, tmp_path / "model.safetensors")
    assert same_weights(model, before)


def test_the_images_are_then_normalised_as_those_of_the_trained_model(tmp_path: Path) -> None:
    trained, mean = aib.create_model("tiny", 3), (0.4, 0.4, 0.4)
    trained.preprocessing = replace(trained.preprocessing, mean=mean, std=mean)
    trained.save_pretrained(tmp_path / "saved")
    s = Settings(data="shapes:count=24", model="tiny", init=str(tmp_path / "saved"), epochs=1)
    train(replace(s, batch_size=8, accelerator="cpu"), tmp_path / "run")
    assert aib.from_pretrained(tmp_path / "run").preprocessing.mean == mean
