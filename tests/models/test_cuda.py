"""On a GPU: nothing in a training step waits for it, and the numbers are the CPU's."""

import pytest
import torch

import aib

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture
def no_waiting():
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    yield
    torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["vgg_aib_qt", "wrn_aib_qt", "wrn_abn", "vgg_att3"])
def test_a_training_step_never_waits_for_the_device(name, dtype, no_waiting):
    model = aib.create_model(name, width=1 / 16).to("cuda", non_blocking=True).train()
    x, y = torch.randn(4, 3, 32, 32, device="cuda"), torch.arange(4, device="cuda")
    with torch.autocast("cuda", dtype=dtype, enabled=dtype == torch.bfloat16):
        loss = aib.aib_loss(model(x), y).total
    loss.backward()


def test_anchors_and_their_usage_are_those_of_the_cpu():
    a = torch.rand(4, 100, 16, 16)
    on_cpu, on_gpu = aib.AnchorQuantizer(50).train(), aib.AnchorQuantizer(50).cuda().train()
    expected, q = on_cpu(a), on_gpu(a.cuda())
    assert torch.equal(q.indices.cpu(), expected.indices)
    assert torch.equal(q.a_q.cpu(), expected.a_q)
    assert torch.equal(on_gpu.usage.cpu(), on_cpu.usage)
    q.quantization.backward()
    expected.quantization.backward()
    torch.testing.assert_close(on_gpu.anchors.grad.cpu(), on_cpu.anchors.grad)
