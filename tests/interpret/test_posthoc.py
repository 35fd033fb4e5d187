import sys
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import aib
from aib.errors import AibError
from aib.interpret import gradcam
from aib.interpret.posthoc import gradcam_layer, gradcam_maps
from aib.models.backbones.propose import ScoreLayer
from tests.helpers import SmallNet, eval_model
from tests.models.networks.small import Swin


class Wrapped(SmallNet):
    """Gives its logits in an object."""

    def forward(self, x):
        return SimpleNamespace(logits=super().forward(x))


X = torch.randn(3, 3, 8, 8, generator=torch.Generator().manual_seed(2))


@pytest.fixture(autouse=True)
def _needs_captum(request):
    if "without_captum" not in request.node.name:
        pytest.importorskip("captum")


def test_logits_may_come_in_an_object_and_the_model_is_left_alone():
    plain = SmallNet().eval()
    net = Wrapped().train()
    net.load_state_dict(plain.state_dict())
    before = {name: value.clone() for name, value in net.state_dict().items()}
    with torch.inference_mode():
        maps = gradcam(net, X, "features")
    assert maps.shape == (3, 8, 8) and not maps.requires_grad
    torch.testing.assert_close(maps, gradcam(plain, X, plain.features))
    assert net.training and net.features.training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert all(p.grad is None for p in net.parameters())
    assert not any(m._forward_hooks or m._backward_hooks for m in net.modules())


def test_bad_input_is_named():
    net = SmallNet()
    with pytest.raises(AibError, match="SmallNet has no layer 'tail'"):
        gradcam(net, X, "tail")
    with pytest.raises(AibError, match=r"\[B,C,h,w\]"):
        gradcam(net, X, "fc")
    with pytest.raises(AibError, match=r"\[B,C,h,w\]"):
        gradcam(Swin(12), IMAGES, "features.1")
    narrow = nn.Sequential(nn.Conv2d(3, 5, 3, (2, 1)), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    assert gradcam(narrow, IMAGES, "0").shape == (3, *IMAGES.shape[2:])
    with pytest.raises(AibError, match="no gradient leads"):
        gradcam(lambda x: net(x).detach(), X, net.features)
    with pytest.raises(AibError, match="one of 'auto', 'own', 'gradcam'"):
        aib.explain(eval_model("tiny_aib"), IMAGES, method="grad")


def test_without_captum_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "captum", None)
    monkeypatch.setitem(sys.modules, "captum.attr", None)
    with pytest.raises(AibError, match=r"pip install 'aib\[posthoc\]'"):
        gradcam(SmallNet(), X, "features")


# --- our own models

IMAGES = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    "name", ["tiny", "tiny_aib_qt", "vgg", "vgg_gap", "vgg_pan", "vgg_att2", "vgg_att3", "wrn_abn"]
)
def test_grad_cam_is_read_from_the_last_grid_on_the_way_to_the_decision(name):
    model = eval_model(name)
    layer = gradcam_layer(model, IMAGES)
    assert not layer.startswith(("attention", "contexts", "compatibilities", "project"))
    seen = []
    dict(model.named_modules())[layer].register_forward_hook(lambda m, i, o: seen.append(o))
    model(IMAGES, deterministic=True)
    assert len(seen) == 1 and min(seen[0].shape[2:]) >= 4
    assert min(seen[0].shape[2:]) <= 8, "it should not be a layer near the image"


class Features(nn.Module):
    """A network whose features lie in this layout, with a grid of 8 x 8."""

    def __init__(self, layout):
        super().__init__()
        self.embed, self.layout = nn.Conv2d(3, 16, 4, 4), layout
        self.mix, self.head = nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, x):
        f = self.embed(x).permute(0, 2, 3, 1)  # [B,8,8,16]
        f = self.mix(f.flatten(1, 2) if self.layout == "tokens" else f)
        return self.head(f.flatten(1, -2).mean(1))


@pytest.mark.parametrize("layout", ["nhwc", "tokens"])
def test_grad_cam_is_refused_where_features_are_no_b_c_h_w(layout):
    model = aib.attach(Features(layout), at="mix", num_classes=4, image_size=32, masked=True)
    with pytest.raises(aib.AibError, match="has none"):
        gradcam_layer(model, IMAGES)


def raw_scores(model, x, classes):
    """The logits of the deterministic pass, before any softmax, of one class per image."""
    return model(x, deterministic=True).sample_logits.mean((0, 1)).gather(1, classes[:, None])[:, 0]


def cam_by_hand(model, classes):
    """Features of the last pass of Grad-CAM's layer, weighed by the gradient of the raw score."""
    features = []
    layer = model.get_submodule(gradcam_layer(model, IMAGES))
    hook = layer.register_forward_hook(lambda module, inputs, output: features.append(output))
    score = raw_scores(model, IMAGES, classes).sum()
    hook.remove()
    [gradient] = torch.autograd.grad(score, features[-1])
    cam = (features[-1] * gradient.mean((2, 3), keepdim=True)).sum(1, keepdim=True).relu()
    cam = F.interpolate(cam, size=(32, 32), mode="bilinear", align_corners=False)[:, 0].detach()
    assert cam.amax() > 0
    return cam / cam.amax(), cam.amax(), len(features)


def attached():
    torch.manual_seed(0)
    return aib.attach(SmallNet(4), at="features", num_classes=4, image_size=32, masked=True).eval()


@pytest.mark.parametrize(
    ("make", "passes"),
    [
        (lambda: eval_model("tiny_aib_qt"), 1),
        (lambda: eval_model("tiny_aib_qt", profile="released"), 1),
        (lambda: eval_model("tiny"), 1),
        (lambda: eval_model("wrn_abn"), 1),
        # Of a masked model the pass that sees the masked image, not the proposal.
        (lambda: eval_model("tiny_aib_masked"), 1),
        (lambda: eval_model("tiny_aib_masked", propose="twice"), 1),
        (attached, 2),  # it runs as a whole in both passes; ours end the first before the tail
    ],
)
def test_grad_cam_weighs_features_by_the_gradient_of_the_raw_class_score(make, passes):
    model = make()
    for layer in model.modules():  # a map that closes some pixels
        if isinstance(layer, ScoreLayer):
            nn.init.normal_(layer.weight, std=10.0)
            nn.init.zeros_(layer.bias)
    out = model(IMAGES, deterministic=True)
    classes = out.logits.argmax(-1)  # their maps are not empty
    cam, most, count = cam_by_hand(model, classes)
    assert count == passes
    if out.mask is not None:
        assert gradcam_layer(model, IMAGES).startswith("body") and out.mask.std() > 0.02
    for target in (classes, None):
        found = gradcam_maps(model, IMAGES, target)
        torch.testing.assert_close(found / most, cam, atol=1e-4, rtol=1e-4)
