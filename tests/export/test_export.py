"""An exported file computes what the model computes, without the model."""

import contextlib
import io
import json

import numpy as np
import pytest
import torch

import aib
from aib.cli import main
from aib.export import export, read_metadata
from aib.export.one_pass import OnePass, describe, traceable
from aib.export.onnx_file import open_onnx
from aib.models.masked import information_bits
from aib.system.files import sha256
from tests.helpers import SmallNet, filled_model, make_run

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
    session = onnxruntime.InferenceSession(path)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"pixels": pixels}), strict=True))


def assert_same_function(path, model, size=32, tolerance=1e-4):
    for batch in (1, 2, 7):
        pixels = random_pixels(batch, size)
        found, expected = run_file(path, pixels), by_hand(model, pixels)
        assert list(found) == list(expected)
        for name, value in found.items():
            assert value.shape == expected[name].shape
            # untrained logits can be large: the differences of float32 are relative to them
            scale = max(1, np.abs(expected[name]).max())
            np.testing.assert_allclose(value, expected[name], atol=tolerance * scale, err_msg=name)


@pytest.mark.parametrize(
    "name",
    ["tiny", "tiny_dvib", "tiny_aib_qt", "tiny_aib_masked", "vgg_pan", "vgg_att3", "wrn_abn"],
)
def test_one_pass_gives_the_outputs_that_a_model_has(name):
    model, pixels = filled_model(name), random_pixels(2)
    with torch.no_grad():
        found = OnePass(traceable(model)).eval()(torch.from_numpy(pixels))
    expected = by_hand(model, pixels)
    assert list(found) == list(expected)
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, atol=1e-6)


def test_the_metadata_say_what_the_outputs_are():
    model = filled_model("tiny_aib_qt")
    about = describe(model, data="folder:/home/me/birds", checksum="that of the file")
    assert about["data"] == "folder:birds"
    assert about["anchors"] == sorted(model.quantizer.anchors.tolist())
    assert about["weights_sha256"] == "that of the file"
    total = model(torch.randn(1, 3, 32, 32), deterministic=True).logits.exp().sum().item()
    assert total == pytest.approx(1, abs=1e-4)


# A conversion takes seconds: the tests below make two, one with anchors and one with a mask.
CASES = [
    (name, 32, {}) for name in ("vgg_pan", "vgg_att3", "wrn_abn", "wrn_aib_qt", "vgg_evaluator")
]
CASES += [(name, 224, {}) for name in ("vgg_aib_qt", "wrn_aib_masked", "lite2_masked")]
CASES += [("tiny_aib_masked", 32, {}), ("tiny_aib_masked", 32, {"propose": "twice"})]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size", "options"), CASES)
def test_onnx_gives_what_pytorch_gives_for_every_batch_size(name, size, options, tmp_path):
    model = filled_model(name, size, **options)
    export(model, tmp_path / "model.onnx")
    tolerance = 1e-5 if name.startswith("lite") else 1e-4
    assert_same_function(tmp_path / "model.onnx", model, min(size, 64), tolerance)


def test_an_attached_network_exports_and_the_command_asks_for_its_backbone(tmp_path, capsys):
    """Its forward reads the batch size from the shape."""
    options = {"masked": True, "preprocessing": filled_model("tiny").preprocessing}
    model = aib.attach(FreeBatch(), "features", 3, image_size=32, **options).eval()
    export(model, tmp_path / "model.onnx")
    assert_same_function(tmp_path / "model.onnx", model)
    model.save_pretrained(tmp_path / "saved")
    assert main(["export", str(tmp_path / "saved")]) == 2
    assert "backbone=" in capsys.readouterr().err


class Singular(SmallNet):
    def forward(self, x):
        f = self.more[:2](self.features(x)).flatten(2)  # [B,6,64]
        return self.fc(torch.linalg.svdvals(f))


class FixedBatch(SmallNet):
    def forward(self, x):
        return super().forward(x).reshape(len(x), -1)


class FreeBatch(SmallNet):
    def forward(self, x):
        return super().forward(x).reshape(x.shape[0], -1)


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        pytest.param(Singular, "cannot be exported: .*svd", marks=pytest.mark.slow),
        (FixedBatch, r"fixes the batch size.* use `x.shape\[0\]`"),
    ],
)
def test_a_network_that_no_graph_can_hold_is_an_error_of_one_sentence(tmp_path, network, reason):
    model = aib.attach(network(), "features", 3, masked=True, image_size=32)
    with pytest.raises(aib.AibError, match=reason):
        export(model, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return make_run(
        tmp_path_factory.mktemp("export") / "run", "tiny_aib_qt", filled_model("tiny_aib_qt")
    )


@pytest.fixture(scope="module")
def written(saved):
    """The file that the command writes, and what it prints."""
    path, printed = saved.parent / "small.onnx", io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(["export", "--run", str(saved), "--out", str(path), "--json"]) == 0
    return path, json.loads(printed.getvalue())


def test_the_file_gives_what_pytorch_gives_for_every_batch_size(saved, written):
    assert_same_function(written[0], aib.from_pretrained(saved))


def test_the_command_writes_a_file_that_says_all_about_itself(saved, written):
    path, answer = written
    config = json.loads((saved / "config.json").read_text())
    session = onnxruntime.InferenceSession(path)
    about = json.loads(session.get_modelmeta().custom_metadata_map["aib"])
    assert about == answer["metadata"] == read_metadata(path) and answer["path"] == str(path)
    assert about["preprocessing"] == config["preprocessing"]
    assert about["recipe"] == config["model"] and about["model"] == "tiny_aib_qt"
    assert about["data"] == config["settings"]["data"] and about["aib"] == aib.__version__
    assert about["weights_sha256"] == sha256(saved / "model.safetensors")
    assert session.get_inputs()[0].shape == about["input"]["shape"]
    shapes = {output.name: list(output.shape) for output in session.get_outputs()}
    assert shapes == about["outputs"]
    assert set(answer["check"]["differences"]) == set(shapes)
    assert answer["check"]["milliseconds"] > 0 < answer["check"]["pytorch_milliseconds"]
    assert b"site-packages" not in path.read_bytes()  # nobody's folders


def test_a_file_of_another_function_is_not_written(saved, written, monkeypatch, capsys, tmp_path):
    def crooked(content):
        run = open_onnx(content)
        return lambda pixels: {name: value * 1.01 for name, value in run(pixels).items()}

    monkeypatch.setattr("aib.export.to_onnx", lambda *_: written[0].read_bytes())
    monkeypatch.setattr("aib.export.open_onnx", crooked)
    assert main(["export", str(saved), "--out", str(tmp_path / "model.onnx")]) == 2
    assert "differs by" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("out", "sentence"),
    [("model.safetensors", "end in .onnx"), ("RUN/config.json/model.onnx", "cannot be written")],
)
def test_a_file_that_cannot_be_written_is_an_error_before_the_work(saved, capsys, out, sentence):
    before = sorted(saved.iterdir())
    assert main(["export", str(saved), "--out", out.replace("RUN", str(saved))]) == 2
    assert sentence in capsys.readouterr().err
    assert sorted(saved.iterdir()) == before


def test_without_the_extra_one_sentence_says_what_to_install(saved, capsys, monkeypatch):
    monkeypatch.setattr("aib.export.find_spec", lambda name: None)
    assert main(["export", str(saved)]) == 2
    assert "ONNX needs onnx: pip install 'aib[onnx]'" in capsys.readouterr().err


def test_a_file_without_metadata_is_refused(tmp_path):
    (tmp_path / "broken.onnx").write_bytes(b"not a model")
    onnx.save(onnx.ModelProto(ir_version=10), tmp_path / "foreign.onnx")
    for name in ("broken.onnx", "foreign.onnx", "missing.onnx"):
        with pytest.raises(aib.AibError, match="cannot be read"):
            read_metadata(tmp_path / name)
