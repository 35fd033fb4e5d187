"""An exported file computes what the model computes, without the model."""

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import aib
from aib.cli import main
from aib.commands import export as command
from aib.commands.export import default_target, int8_images
from aib.data import load
from aib.export import _FORMATS, export, formats, quantise, read_metadata
from aib.export.one_pass import OnePass, describe, settled, traceable
from aib.models.masked import information_bits
from aib.runs.run import find_model, open_run
from aib.system.files import sha256
from tests.data import official
from tests.helpers import SmallNet, filled_model

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def by_hand(model, pixels):
    """What the file must give, from the model and from the formula of the normalisation."""
    mean, std = (
        np.array(values, np.float32).reshape(1, 3, 1, 1)
        for values in (model.preprocessing.mean, model.preprocessing.std)
    )
    x = torch.from_numpy((pixels - mean) / std)
    with torch.no_grad():
        out = model(x, deterministic=True)
    found = {"logits": out.logits}
    if out.mask is not None and out.attention is not None:
        found |= {"map": out.mask[0], "bits": information_bits(x, out.mask[0], model.noise_std)}
        found["attention"] = out.attention.a_q[0]
    elif out.attention is not None:
        found["map"], _ = model.mean_map(out.attention)
    if out.attention is not None and out.attention.sigma is not None:
        found["sigma"] = out.attention.sigma
    return {name: value.numpy() for name, value in found.items()}


def random_pixels(batch, size=32):
    return np.random.default_rng(batch).random((batch, 3, size, size), np.float32)


def run_file(path, pixels):
    """The outputs of an exported file by name."""
    if path.suffix == ".onnx":
        session = onnxruntime.InferenceSession(path)
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(None, {"pixels": pixels}), strict=True))
    found = torch.export.load(path).module()(torch.from_numpy(pixels))
    return {name: value.detach().numpy() for name, value in found.items()}


def assert_same_function(path, model, size=32):
    for batch in (1, 2, 7):
        pixels = random_pixels(batch, size)
        found, expected = run_file(path, pixels), by_hand(model, pixels)
        assert list(found) == list(expected)
        for name, value in found.items():
            assert value.shape == expected[name].shape
            # untrained logits can be large: the differences of float32 are relative to them
            scale = max(1, np.abs(expected[name]).max())
            np.testing.assert_allclose(value, expected[name], atol=1e-4 * scale, err_msg=name)


@pytest.mark.parametrize("name", aib.list_models("*"))
def test_one_pass_gives_the_outputs_that_a_model_has(name):
    model, pixels = filled_model(name), random_pixels(2)
    with torch.no_grad():
        found = OnePass(traceable(model)).eval()(torch.from_numpy(pixels))
    expected = by_hand(model, pixels)
    assert list(found) == list(expected)
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, atol=1e-6)


def test_the_model_stays_as_it_is():
    model = filled_model("tiny_aib_qt").double().train()
    assert not settled(model).training and model.training


@pytest.mark.parametrize(("profile", "named"), [("paper", "log-p"), ("released", "logits")])
def test_the_metadata_say_what_the_outputs_are(profile, named):
    model = filled_model("tiny_aib_qt", profile=profile)
    about = describe(model, "onnx", checksum="that of the file")
    assert about["anchors"] == sorted(model.quantizer.anchors.tolist())
    assert about["weights_sha256"] == "that of the file"
    assert about["outputs"]["logits"]["values"].startswith(named)
    total = model(torch.randn(1, 3, 32, 32), deterministic=True).logits.exp().sum().item()
    assert (total == pytest.approx(1, abs=1e-4)) == (profile == "paper")


# A conversion takes seconds, so all but two are slow tests.
SLOW = [
    (name, 32, {}) for name in ("vgg_pan", "vgg_att3", "wrn_abn", "wrn_aib_qt", "vgg_evaluator")
]
SLOW += [("vgg_aib_qt", 224, {}), ("wrn_aib_masked", 224, {})]
SLOW += [("tiny_aib_masked", 32, {"propose": "twice", "quantise_map": True})]


@pytest.mark.parametrize(
    ("name", "size", "options"),
    [
        ("tiny_aib_qt", 32, {}),
        ("tiny_aib_masked", 32, {}),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW),
    ],
)
def test_onnx_gives_what_pytorch_gives_for_every_batch_size(name, size, options, tmp_path):
    model = filled_model(name, size, **options)
    export(model, tmp_path / "model.onnx")
    assert_same_function(tmp_path / "model.onnx", model, min(size, 64))


def test_an_attached_network_exports_from_python_and_the_command_asks_for_its_backbone(
    tmp_path, capsys
):
    options = {"quantizer": 4, "preprocessing": filled_model("tiny").preprocessing}
    model = aib.attach(SmallNet(), "features", 3, image_size=32, **options).eval()
    exported = export(model, tmp_path / "model.pt2", "torch-export")
    assert_same_function(tmp_path / "model.pt2", model)
    assert read_metadata(tmp_path / "model.pt2") == exported.metadata
    model.save_pretrained(tmp_path / "saved")
    assert main(["export", str(tmp_path / "saved")]) == 2
    assert "backbone=" in capsys.readouterr().err


def test_paths_may_be_strings_and_folders_of_this_machine_are_cut(tmp_path):
    path = str(tmp_path / "model.onnx")
    exported = export(filled_model("tiny"), path, data="folder:/home/me/birds")
    assert read_metadata(path) == exported.metadata
    images = torch.randint(0, 256, (4, 3, 32, 32), dtype=torch.uint8)
    data = "folder:/home/me/cats"
    small = quantise(path, str(tmp_path / "small.onnx"), images[:2], images[2:], data)
    assert small.path == tmp_path / "small.onnx"
    about = read_metadata(small.path)
    assert about["data"] == "folder:birds" and about["int8"]["calibrated_on"] == "folder:cats"
    assert b"/home/me" not in small.path.read_bytes()
    graph = onnx.load(small.path).graph
    scales = {one.name: onnx.numpy_helper.to_array(one) for one in graph.initializer}
    first = next(node for node in graph.node if node.op_type == "QuantizeLinear")
    # Calibrated on 0..1: from (0 - 0.4) / 0.2 to (1 - 0.4) / 0.2, in 255 steps.
    assert 255 * scales[first.input[1]] == pytest.approx(5, rel=0.05)


def test_an_operation_that_onnx_does_not_have_is_named(tmp_path):
    class Singular(SmallNet):
        def forward(self, x):
            f = self.more[:2](self.features(x)).flatten(2)  # [B,6,64]
            return self.fc(torch.linalg.svdvals(f))

    model = aib.attach(Singular(), at="features", num_classes=3, image_size=32)
    with pytest.raises(aib.AibError, match="cannot be exported as onnx: .*svd"):
        export(model, tmp_path / "model.onnx")


def test_a_network_that_fixes_the_batch_size_is_told_what_to_use(tmp_path):
    class Fixed(SmallNet):
        def forward(self, x):
            return super().forward(x).reshape(len(x), -1)

    class Free(SmallNet):
        def forward(self, x):
            return super().forward(x).reshape(x.shape[0], -1)

    model = aib.attach(Fixed(), at="features", masked=True, num_classes=3, image_size=32)
    with pytest.raises(aib.AibError, match=r"fixes the batch size.* use `x.shape\[0\]`"):
        export(model, tmp_path / "model.pt2", "torch-export")
    model = aib.attach(Free(), at="features", masked=True, num_classes=3, image_size=32)
    assert export(model, tmp_path / "model.pt2", "torch-export").path.is_file()


def test_a_network_that_no_graph_can_hold_is_refused_in_a_sentence(tmp_path):
    class Moody(SmallNet):
        def forward(self, x):
            return super().forward(x if x.sum() > 0 else -x)

    model = aib.attach(Moody(), at="features", num_classes=3, image_size=32)
    with pytest.raises(aib.AibError, match="cannot be exported as torch-export: .+"):
        export(model, tmp_path / "model.pt2", "torch-export")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A run's folder as `aib train` leaves it, and its model exported by the command with int8."""
    folder = tmp_path_factory.mktemp("export") / "run"
    torch.manual_seed(0)
    words = "--model tiny_aib_qt --data shapes:count=200 --width 0.25 --epochs 1 --batch-size 50"
    assert main(["train", *words.split(), "--accelerator", "cpu", "--out", str(folder)]) == 0
    return folder


def test_the_command_writes_files_that_say_all_about_themselves(saved, capsys):
    fp32, int8 = saved / "small.onnx", saved / "small.int8.onnx"
    words = ["export", str(saved), "--int8", "--calibrate", "40", "--out", str(fp32), "--json"]
    assert main(words) == 0
    answer = json.loads(capsys.readouterr().out)
    config = json.loads((saved / "config.json").read_text())
    session = onnxruntime.InferenceSession(fp32)
    about = json.loads(session.get_modelmeta().custom_metadata_map["aib"])
    assert about == answer["metadata"] == read_metadata(fp32)
    assert about["preprocessing"] == config["preprocessing"]
    assert about["recipe"] == config["model"] and about["model"] == "tiny_aib_qt"
    assert about["data"] == config["settings"]["data"] and about["aib"] == aib.__version__
    assert about["weights_sha256"] == sha256(saved / "model.safetensors")
    assert about["outputs"]["map"]["values"].startswith("a_q")
    assert session.get_inputs()[0].shape == about["input"]["shape"]
    shapes = {output.name: list(output.shape) for output in session.get_outputs()}
    assert shapes == {name: value["shape"] for name, value in about["outputs"].items()}
    assert set(answer["check"]["differences"]) == set(shapes)
    assert b"site-packages" not in fp32.read_bytes()  # nobody's folders

    small = answer["int8"]
    assert (answer["path"], small["path"]) == (str(fp32), str(int8))
    assert small["calibration_images"] == 40
    assert small["bytes"] == int8.stat().st_size < fp32.stat().st_size == small["fp32_bytes"]
    assert read_metadata(int8)["int8"]["calibration_images"] == 40
    weights = {tensor.data_type for tensor in onnx.load(int8).graph.initializer if tensor.dims}
    assert onnx.TensorProto.INT8 in weights
    # The comparison again, from the two files. All 200 test images are taken.
    images = (load("shapes:count=200", "test").images / 255).numpy()
    assert small["images"] == len(images)
    fp32_logits, int8_logits = (
        onnxruntime.InferenceSession(f).run(["logits"], {"pixels": images})[0] for f in (fp32, int8)
    )
    same = (fp32_logits.argmax(1) == int8_logits.argmax(1)).mean()
    assert small["agreement"] == pytest.approx(same)
    gaps = np.abs(fp32_logits - int8_logits)
    gap = gaps.max()
    assert small["differences"]["logits"] == pytest.approx(gap, rel=1e-3) and 0 < gap < 1
    assert small["mean_differences"]["logits"] == pytest.approx(gaps.mean(), rel=1e-3)


def test_int8_is_compared_on_images_that_did_not_calibrate_it(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "COMPARED", 8)
    filled_model("tiny_aib_qt").save_pretrained(tmp_path / "saved")
    run = open_run(tmp_path / "saved", "cpu")

    def chosen(*options) -> tuple[list[bytes], list[bytes]]:
        calibration, compared, _ = int8_images(run, *options)
        return tuple([one.numpy().tobytes() for one in part] for part in (calibration, compared))

    official.write_cifar10(tmp_path)
    data, root = "cifar10:partial", str(tmp_path)
    train, test = (
        {one.numpy().tobytes() for one in load(data, split, root=root, holdout=0).images}
        for split in ("train", "test")
    )
    first, second = (chosen(data, root, 30, seed) for seed in (0, 1))
    for taken, compared in (first, second):
        assert len(set(taken) & train) == 30 and len(set(compared) & test) == 8
    assert set(first[0]) != set(second[0]) and set(first[1]) != set(second[1])
    # a folder without test images is divided
    photos = official.write_folder(tmp_path / "photos", classes=2, per_class=3)
    for count, sizes in ((128, (3, 3)), (1, (1, 5))):
        taken, compared = chosen(f"folder:{photos}", None, count, 0)
        assert (len(taken), len(compared)) == sizes and not set(taken) & set(compared)
    alone = official.write_folder(tmp_path / "alone", classes=1, per_class=1)
    with pytest.raises(aib.AibError, match="int8 needs at least 2 images"):
        chosen(f"folder:{alone}", None, 128, 0)


def test_a_file_that_computes_something_else_is_not_written(saved, monkeypatch, capsys, tmp_path):
    def crooked(file):
        run = formats.open_torch_export(file)
        return lambda pixels: {name: value * 1.01 for name, value in run(pixels).items()}

    monkeypatch.setitem(_FORMATS, "torch-export", (formats.to_torch_export, crooked))
    words = ["--format", "torch-export", "--out", str(tmp_path / "model.pt2")]
    assert main(["export", str(saved), *words]) == 2
    assert "differs by" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nowhere"], "nowhere is not a run"),
        (["RUN", "--format", "tflite"], "tflite"),
        (["RUN", "--format", "torch-export", "--int8"], "--int8 needs"),
        (["RUN", "--out", "model.safetensors"], "ends in .onnx"),
        (["RUN", "--out", "RUN/config.json/model.onnx"], "cannot be written"),
        (["RUN", "--int8", "--calibrate", "0"], "at least 1"),
        (["RUN", "--int8", "--data", "nothing"], "nothing"),
        (["MODEL", "--int8"], "name its data with --data"),
        (["RUN", "--int8", "--data", "nothing", "--out", "model.pt2"], "ends in .onnx"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_sentence(saved, tmp_path, capsys, words, sentence):
    before = sorted(saved.iterdir())
    aib.from_pretrained(saved).save_pretrained(tmp_path)
    folders = {"RUN": saved, "MODEL": tmp_path}
    words = [re.sub("RUN|MODEL", lambda match: str(folders[match[0]]), word) for word in words]
    assert main(["export", *words]) == 2
    err = capsys.readouterr().err
    assert sentence in err and "Traceback" not in err
    assert sorted(saved.iterdir()) == before


def test_without_the_extra_one_sentence_says_what_to_install(saved, capsys, monkeypatch):
    find = formats.importlib.util.find_spec
    monkeypatch.setattr(
        formats.importlib.util, "find_spec", lambda n: None if n == "onnxruntime" else find(n)
    )
    assert main(["export", str(saved)]) == 2
    assert "ONNX needs onnxruntime: pip install 'aib[onnx]'" in capsys.readouterr().err


def test_a_file_that_is_no_export_of_ours_is_refused(tmp_path):
    for name in ("model.onnx", "model.pt2", "missing.pt2"):
        if name != "missing.pt2":
            (tmp_path / name).write_bytes(b"not a model")
        with pytest.raises(aib.AibError, match="cannot be read as an exported model"):
            read_metadata(tmp_path / name)
    onnx.save(onnx.ModelProto(ir_version=10), tmp_path / "foreign.onnx")
    with pytest.raises(aib.AibError, match="not exported by aib"):
        read_metadata(tmp_path / "foreign.onnx")


def test_metadata_is_read_without_running_the_file(tmp_path):
    class Evil:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "touched",)

    path, model = tmp_path / "model.pt2", filled_model("tiny_aib_qt")
    about = export(model, path, "torch-export").metadata
    torch.save(Evil(), tmp_path / "evil.pt")
    with zipfile.ZipFile(path) as given:
        files = {name: given.read(name) for name in given.namelist()}
    [inputs] = [name for name in files if name.endswith("/data/sample_inputs/model.pt")]
    files[inputs] = (tmp_path / "evil.pt").read_bytes()
    with zipfile.ZipFile(path, "w") as made:
        for name, content in files.items():
            made.writestr(name, content)
    assert read_metadata(path) == about
    assert not (tmp_path / "touched").exists()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "not exported by aib"),
        (b"[1]", "not exported by aib"),
        (b"{", "cannot be read"),
        (b"\xff", "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (b" " * (formats.MAX_METADATA + 1), "larger than"),
    ],
)
def test_metadata_that_is_none_is_refused(tmp_path, content, sentence):
    with zipfile.ZipFile(tmp_path / "a.pt2", "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("a/extra/other.json", b"{}")
        if content is not None:
            made.writestr("a/extra/aib.json", content)
    with pytest.raises(aib.AibError, match=sentence):
        read_metadata(tmp_path / "a.pt2")


def test_a_packaged_model_is_written_where_the_user_is(tmp_path, monkeypatch):
    monkeypatch.setattr("aib.runs.pretrained.PACKAGED", tmp_path)
    filled_model("tiny_aib_qt").save_pretrained(tmp_path / "shapes_small")
    for run in (None, Path("shapes_small")):
        assert default_target(find_model(run), "onnx") == Path("shapes_small.onnx")
    assert default_target(Path("runs/a"), "torch-export") == Path("runs/a/model.pt2")
