"""Loss and gradients stay finite, whatever the images and whatever the encoder says."""

import os
from contextlib import nullcontext

import pytest
import torch
from hypothesis import given, settings, strategies as st

import aib

# An older processor without bf16 instructions says so once and goes on.
pytestmark = pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")

NAMES = ["tiny_aib", "tiny_aib_qt", "vgg_aib_qt", "wrn_aib_qt"]
BASELINES = ["vgg_pan", "vgg_dvib", "vgg_att3", "wrn_abn"]


def precision(name):
    return torch.autocast("cpu", dtype=torch.bfloat16) if name == "bf16" else nullcontext()


def assert_finite(model, x, y, precision_name, beta=0.01):
    model.zero_grad()
    with precision(precision_name):
        out = model(x)
        terms = aib.aib_loss(out, y, beta=beta)
    terms.total.backward()
    for name, value in terms.detached().items():
        assert value.isfinite(), name
    assert out.logits.isfinite().all()
    bad = [n for n, p in model.named_parameters() if not p.grad.isfinite().all()]
    assert bad == []


@st.composite
def images(draw):
    """Up to +-1e4: noise, a constant, a lone pixel, or the extremes side by side."""
    scale = draw(st.sampled_from([1e-4, 1.0, 1e2, 1e4]))
    kind = draw(st.sampled_from(["noise", "constant", "pixel", "extremes"]))
    x = torch.zeros(2, 3, 32, 32)
    if kind == "noise":
        torch.manual_seed(draw(st.integers(0, 2**16)))
        x = torch.rand(2, 3, 32, 32) * 2 - 1
    elif kind == "constant":
        x += draw(st.sampled_from([-1.0, 1.0]))
    elif kind == "pixel":
        x[0, draw(st.integers(0, 2)), draw(st.integers(0, 31)), 0] = 1.0
    else:
        x = torch.where(torch.rand_like(x) < 0.5, -1.0, 1.0)
    return x * scale


cases = st.tuples(
    st.sampled_from(NAMES + BASELINES),
    st.sampled_from(["paper", "released"]),
    st.sampled_from(["fp32", "bf16"]),
    st.booleans(),
)


@settings(max_examples=max(24, int(os.environ.get("AIB_FUZZ_CASES", "0")) // 2))
@given(cases, images())
def test_loss_and_gradients_are_finite_for_any_image(case, x):
    name, profile, precision_name, training = case
    torch.manual_seed(0)
    model = aib.create_model(name, num_classes=3, width=1 / 32, profile=profile).train(training)
    assert_finite(model, x, torch.tensor([0, 2]), precision_name)


@pytest.mark.parametrize("precision_name", ["fp32", "bf16"])
@pytest.mark.parametrize("profile", ["paper", "released"])
@pytest.mark.parametrize("sigma", [-1e4, 1e4])
def test_encoder_outputs_of_ten_thousand_are_survived(sigma, profile, precision_name):
    model = aib.create_model("tiny_aib_qt", num_classes=3, width=0.25, profile=profile)
    k = model.head.latent_dim
    with torch.no_grad():
        model.head.encode.bias[:k], model.head.encode.bias[k:] = -1e4, sigma
        model.attention.trunk.bias.fill_(sigma)
    x, y = torch.randn(2, 3, 32, 32), torch.tensor([0, 2])
    assert_finite(model.train(), x, y, precision_name, beta=1.0)


def test_bf16_autocast_keeps_the_bottleneck_in_float32():
    model = aib.create_model("tiny_aib_qt", width=0.25)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(torch.randn(2, 3, 32, 32))
        terms = aib.aib_loss(out, torch.tensor([0, 1]))
    kept = [out.attention.mu, out.attention.sigma, out.attention.a_q, out.latent.mu]
    kept += [out.latent.sigma, out.latent.z, out.logits, *terms.detached().values()]
    assert {t.dtype for t in kept} == {torch.float32}
    assert torch.equal(out.attention.a_q, model.quantizer.anchors[out.attention.indices])
