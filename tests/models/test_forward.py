"""One forward pass: shapes, samples, noise, averaging."""

import math

import pytest
import torch

import aib
from tests.helpers import images

B, C, K, Q, HW = 3, 5, 8, 6, 8
AIB_NAMES = ["tiny_aib", "tiny_aib_qt"]


def make(name="tiny_aib_qt", **options):
    options |= {"num_anchors": Q} if name.endswith("qt") else {}
    return aib.create_model(name, num_classes=C, latent_dim=K, width=0.25, **options)


def noise_for(s, m):
    return torch.randn(s, B, HW, HW), torch.randn(s, m, B, K)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("s", "m"), [(1, 1), (1, 3), (2, 1), (2, 3)])
def test_every_field_has_the_shape_of_s_times_m_samples(s, m, training):
    out = make().train(training)(images(B), samples=(s, m))
    assert out.sample_logits.shape == (s, m, B, C)
    assert out.logits.shape == (B, C)
    a, z = out.attention, out.latent
    assert a.mu.shape == a.sigma.shape == (B, HW, HW)
    assert a.a.shape == a.a_q.shape == a.indices.shape == (s, B, HW, HW)
    assert a.quantization.shape == a.commitment.shape == ()
    assert a.maps == (a.mu,)
    assert z.mu.shape == z.sigma.shape == (s, B, K)
    assert z.z.shape == (s, m, B, K)
    assert out.aux_logits is None


def test_without_attention_there_is_none_and_the_latent_still_has_m_samples():
    out = make("tiny_dvib").eval()(images(B), samples=(4, 3))
    assert out.attention is None
    assert out.latent.z.shape == (1, 3, B, K)
    assert out.sample_logits.shape == (1, 3, B, C)


@pytest.mark.parametrize(("profile", "samples"), [("paper", (4, 12)), ("released", (4, 4))])
def test_training_draws_one_sample_and_evaluation_the_profiles(profile, samples):
    model, x = make(profile=profile), images(B)
    assert model.train()(x).sample_logits.shape[:2] == (1, 1)
    assert model.eval()(x).sample_logits.shape[:2] == samples


@pytest.mark.parametrize("name", AIB_NAMES)
def test_deterministic_passes_take_the_means_and_repeat_exactly(name):
    model, x = make(name).eval(), images(B)
    state = torch.get_rng_state()
    first = model(x, samples=(4, 12), deterministic=True)
    second = model(x, deterministic=True)
    assert torch.equal(state, torch.get_rng_state())
    assert first.sample_logits.shape == (1, 1, B, C)
    assert torch.equal(first.sample_logits, second.sample_logits)
    assert torch.equal(first.attention.a[0], first.attention.mu)
    assert torch.equal(first.latent.z[:, 0], first.latent.mu)


def test_each_attention_sample_is_what_one_pass_with_its_noise_gives():
    """The S x M pass against S separate passes: samples and images are not mixed up."""
    model, x = make().eval(), images(B)
    eps_a, eps_z = noise_for(3, 2)
    together = model(x, samples=(3, 2), noise=(eps_a, eps_z))
    a, z = together.attention, together.latent
    torch.testing.assert_close(a.a, a.mu + a.sigma * eps_a)
    torch.testing.assert_close(z.z, z.mu[:, None] + z.sigma[:, None] * eps_z)
    for s in range(3):
        for m in range(2):
            noise = (eps_a[s : s + 1], eps_z[s : s + 1, m : m + 1])
            alone = model(x, samples=(1, 1), noise=noise)
            torch.testing.assert_close(together.sample_logits[s, m], alone.sample_logits[0, 0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": torch.zeros(2, 32, 32, 3)}, r"not \[2, 32, 32, 3\]"),
        ({"x": torch.zeros(0, 3, 32, 32)}, r"not \[0, 3, 32, 32\]"),
        ({"x": torch.zeros(2, 3, 32, 32, dtype=torch.uint8)}, "not torch.uint8"),
        ({"samples": (0, 1)}, "samples must be two integers"),
        ({"noise": (torch.zeros(2, B, HW, HW), None)}, r"noise for a must be \(1, 3, 8, 8\)"),
        ({"noise": (None, torch.zeros(1, 3, B, K))}, r"noise for z must be \(1, 1, 3, 8\)"),
    ],
)
def test_wrong_arguments_are_an_error(arguments, message):
    with pytest.raises(aib.AibError, match=message):
        make()(**{"x": images(B), **arguments})


def test_logits_are_the_log_of_the_mean_probability():
    out = make().eval()(images(B), samples=(2, 3))
    probabilities = [
        [[math.exp(v) / sum(map(math.exp, row)) for v in row] for row in sample.double().tolist()]
        for sample in out.sample_logits.flatten(0, 1)
    ]
    mean = torch.tensor(probabilities).mean(0)
    torch.testing.assert_close(out.logits, mean.log(), rtol=1e-4, atol=1e-5)
    far = aib.Output(torch.tensor([[1e4, 0.0], [0.0, 1e4]]).view(2, 1, 1, 2))  # exp overflows
    torch.testing.assert_close(far.logits.exp(), torch.tensor([[0.5, 0.5]]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", ["tiny_aib_qt", "vgg_pan", "vgg_att3", "wrn_abn"])
def test_a_model_converted_as_a_whole_works_in_that_type(name, dtype):
    model = aib.create_model(name, num_classes=C, width=1 / 32).to(dtype)
    out = model(images(B).to(dtype))
    aib.aib_loss(out, torch.arange(B)).total.backward()
    assert out.logits.isfinite().all()
    assert all(p.grad.dtype == dtype for p in model.parameters())
