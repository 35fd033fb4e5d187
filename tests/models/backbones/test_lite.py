"""EfficientNet-Lite and the proposal that copies its first stages."""

import math

import pytest
import torch
import torch.nn.functional as F

import aib
from aib.models.backbones.lite import Lite, SameConv2d

# As published for 1,000 classes (4.7 and 6.1 million), less the layer to the classes.
PARAMETERS = {"lite0": 4_652_008 - 1_281_000, "lite2": 6_092_072 - 1_281_000}


def same_padded(x: torch.Tensor, weight: torch.Tensor, stride: int) -> torch.Tensor:
    """A convolution by its sum, with as many positions as TensorFlow's "same" gives."""
    k, (height, width) = weight.shape[-1], x.shape[2:]
    rows, columns = math.ceil(height / stride), math.ceil(width / stride)
    out = torch.zeros(len(x), len(weight), rows, columns, dtype=x.dtype)
    top = max((rows - 1) * stride + k - height, 0) // 2
    left = max((columns - 1) * stride + k - width, 0) // 2
    for i in range(rows):
        for j in range(columns):
            for di in range(k):
                for dj in range(k):
                    r, c = i * stride + di - top, j * stride + dj - left
                    if 0 <= r < height and 0 <= c < width:
                        out[:, :, i, j] += x[:, :, r, c] @ weight[:, :, di, dj].T
    return out


@pytest.mark.parametrize("stride, size", [(1, (6, 5)), (2, (6, 7)), (2, (5, 8))])
@pytest.mark.parametrize("kernel", [3, 5])
def test_padding_is_tensorflows(kernel, stride, size):
    conv = SameConv2d(3, 4, kernel, stride, bias=False).double()
    x = torch.randn(2, 3, *size, dtype=torch.float64)
    assert torch.allclose(conv(x), same_padded(x, conv.weight, stride))


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_networks_have_the_published_parameters_and_timms_names(name):
    with torch.device("meta"):
        network = Lite(name)
    assert sum(p.numel() for p in network.parameters()) == PARAMETERS[name]
    names = network.state_dict()
    assert {"conv_stem.weight", "blocks.0.0.conv_dw.weight", "conv_head.weight"} <= names.keys()
    assert {"blocks.6.0.conv_pwl.weight", "blocks.6.0.bn3.running_var", "bn2.bias"} <= names.keys()
    assert len(network.blocks[0]) == len(network.blocks[6]) == 1


@pytest.mark.parametrize("stride, side", [(8, 8), (16, 4)])
@pytest.mark.parametrize("name", ["lite0_masked", "vgg_aib_masked", "wrn_aib_masked"])
def test_a_copy_proposes_a_map_from_stages_of_its_own(name, stride, side):
    torch.manual_seed(0)
    model = aib.create_model(name, 4, 224, width=1 / 16, propose="copy", map_stride=stride)
    x = torch.randn(2, 3, 64, 64)
    model(x)
    model.eval()
    mu = model(x, deterministic=True).attention.mu
    assert mu.shape == (2, side, side)
    for weight in model.body.parameters():  # the classifier's weights are not the proposal's
        torch.nn.init.zeros_(weight)
    assert torch.equal(model(x, deterministic=True).attention.mu, mu)


def test_fine_features_add_nothing_before_training():
    torch.manual_seed(0)
    model = aib.create_model("lite0_masked", 4, 224, width=1 / 16).eval()
    trunk, x = model.propose.trunk, torch.randn(1, 3, 64, 64)
    _, coarse = trunk.stages(x)
    large = F.interpolate(coarse, size=(8, 8), mode="bilinear")
    assert torch.equal(trunk(x), trunk.to_score(large))
    torch.nn.init.ones_(trunk.add_fine.weight)
    assert not torch.equal(trunk(x), trunk.to_score(large))


@pytest.fixture
def lite0():
    """A narrow network, its head, and their weights by timm's names."""
    torch.manual_seed(0)
    network, head = Lite("lite0", 1 / 16), torch.nn.Linear(80, 1000)
    file = {f"classifier.{name}": value for name, value in head.state_dict().items()}
    return network, head, network.state_dict() | file


@pytest.mark.parametrize(("names", "classes"), [("timm", 4), ("wheel", 1000)])
def test_imagenets_weights_fill_network_copy_and_fitting_head(names, classes, lite0, tmp_path):
    """A file by timm's names, and one with other names in the same order."""
    network, head, file = lite0
    if names == "wheel":
        own = {k.replace("classifier", "_fc"): v for k, v in file.items() if "classifier" in k}
        others = (v for k, v in file.items() if "classifier" not in k)
        file = {f"_layer{i}": value for i, value in enumerate(others)} | own
    torch.save(file, tmp_path / "lite0.pth")
    model = aib.create_model("lite0_masked", classes, 224, width=1 / 16)
    loaded = aib.load_backbone(model, tmp_path / "lite0.pth")
    network.eval(), model.eval()
    x, opened = torch.randn(2, 3, 64, 64), torch.ones(2, 64, 64)
    torch.testing.assert_close(model.body(x), network(x))
    copied = model.propose.trunk.stages.state_dict()
    assert all(torch.equal(value, network.state_dict()[name]) for name, value in copied.items())
    assert {name.split(".")[0] for name in loaded.fresh} == (
        {"propose"} if classes == 1000 else {"propose", "head"}
    )
    if classes == 1000:
        logits = model(x, mask=opened, samples=(1, 1)).logits
        torch.testing.assert_close(logits.softmax(1), head(network(x)).softmax(1))
    assert model.pretrained_names == set(loaded.loaded)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda file: file.pop("conv_stem.weight"), "another network: 293 tensors"),
        (lambda file: file.pop("bn2.weight"), r"1 tensor missing \(bn2.weight"),
        (lambda file: file.update(x=torch.zeros(2)), r"1 tensor unexpected \(x first"),
        (lambda file: file.pop("classifier.bias"), r"1 tensor missing \(bias"),
        (lambda file: file.update(bn1=0, **{"bn1.bias": torch.zeros(3)}), "does not fit"),
        (lambda file: file["bn1.bias"].fill_(torch.nan), "holds NaN"),
    ],
)
def test_weights_of_another_network_are_an_error(change, message, lite0, tmp_path):
    *_, file = lite0
    change(file)
    torch.save(file, tmp_path / "lite0.pth")
    model = aib.create_model("lite0_masked", 1000, 224, width=1 / 16)
    with pytest.raises(aib.AibError, match=message):
        aib.load_backbone(model, tmp_path / "lite0.pth")
