"""torch.compile takes a model whole: no graph break, no waiting for the device, same numbers."""

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses.fake_tensor import FakeTensorMode

import aib
from aib.models.types import Noise
from tests.helpers import SmallNet, latent_of

SLOW = [("attached", 32), ("tiny_aib_masked", 32), ("vgg_aib_qt", 32), ("wrn_aib_qt", 32)]
SLOW += [("vgg_aib_qt", 224), ("wrn_aib_qt", 224), ("tiny_aib_qt", 32)]
FAST = [("attached_masked", 32)]
CASES = FAST + [pytest.param(*case, marks=pytest.mark.slow) for case in SLOW]


def make(name, image_size):
    if name.startswith("attached"):
        options = {"masked": True} if name == "attached_masked" else {"quantizer": 4}
        return aib.attach(SmallNet(), "features", 3, image_size=32, latent_dim=8, **options)
    options = latent_of(name, 8)
    if name.startswith("wrn") and image_size == 32:
        options["dropout"] = 0.0  # draws from the generator, and compiled code draws differently
    return aib.create_model(name, 3, image_size, width=1 / 32, **options)


def batch_for(model, size, samples=(2, 2)):
    x, y = torch.randn(2, 3, size, size), torch.tensor([0, 2])
    out = model.eval()(x, samples=samples)
    eps_z = None if out.latent is None else torch.randn_like(out.latent.z)
    eps_x = None if out.mask is None else torch.randn(samples[0], *x.shape)
    return x, y, Noise(torch.randn_like(out.attention.a), eps_z, eps_x)


def gradients(run, model, x, y, noise):
    model.train().zero_grad()
    out = run(x, samples=(2, 2), noise=noise)
    terms = aib.aib_loss(out, y)
    terms.total.backward()
    return out, terms, {n: p.grad.clone() for n, p in model.named_parameters()}


def assert_compiled_equals_eager(model, size, backend, **tolerance):
    torch.compiler.reset()
    x, y, noise = batch_for(model, size)
    state = {k: v.clone() for k, v in model.state_dict().items()}
    _, eager_terms, eager = gradients(model, model, x, y, noise)
    after_eager = {k: v.clone() for k, v in model.state_dict().items()}
    model.load_state_dict(state)

    counter = CompileCounterWithBackend(backend)
    step = torch.compile(model, fullgraph=True, backend=counter)
    out, terms, compiled = gradients(step, model, x, y, noise)
    assert counter.frame_count == 1
    assert isinstance(out, aib.Output) and out.sample_logits.shape[:2] == (2, 2)
    torch.testing.assert_close(terms.detached(), eager_terms.detached(), **tolerance)
    torch.testing.assert_close(compiled, eager, **tolerance)
    # running statistics and the anchors' usage as well
    torch.testing.assert_close(dict(model.state_dict()), after_eager, **tolerance)


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "image_size"), CASES)
def test_a_compiled_model_equals_the_eager_one_forward_and_backward(name, image_size, backend):
    assert_compiled_equals_eager(
        make(name, image_size), min(image_size, 64), backend, rtol=1e-3, atol=1e-4
    )


def test_the_whole_step_with_its_loss_compiles_and_beta_may_change_without_another_compile():
    torch.compiler.reset()
    model = make("attached", 32).train()
    counter = CompileCounterWithBackend("aot_eager")

    @torch.compile(fullgraph=True, backend=counter)
    def step(x, y, beta):
        return aib.aib_loss(model(x), y, beta=beta).total

    x, y = torch.randn(2, 3, 32, 32), torch.tensor([0, 2])
    losses = [step(x, y, torch.tensor(beta)) for beta in (0.01, 0.01, 0.0)]
    losses[-1].backward()
    assert counter.frame_count == 1
    assert losses[0] != losses[1]  # it draws its own noise


@pytest.mark.parametrize("name", ["attached_masked", "vgg_aib_qt"])
def test_no_forward_pass_reads_a_value_back_from_the_device(name):
    """Fake tensors have shapes and no values: .item(), a branch on data or bincount would raise."""
    model = make(name, 32)
    with FakeTensorMode(allow_non_fake_inputs=True):
        for training in (True, False):
            out = model.train(training)(torch.randn(2, 3, 32, 32), samples=(2, 2))
            assert out.logits.shape == (2, 3)
