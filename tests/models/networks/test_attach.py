"""attach(): any network gains attention, shown on a ResNet-like and a DenseNet-like one."""

from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import aib
from tests.helpers import images
from tests.models.networks.small import DenseNet, ResNet, ViT

B, C, K = 2, 5, 8


def attached(network=ResNet, at="layer2", **options):
    quantizer = None if options.get("masked") else 4
    options = {
        "quantizer": quantizer,
        "latent_dim": K,
        "image_size": 32,
        "num_classes": C,
    } | options
    return aib.attach(network(), at=at, **options)


@pytest.mark.parametrize(
    ("network", "at", "channels"),
    [(ResNet, "layer1", 8), (ResNet, "layer2", 12), (DenseNet, "features.transition1", 8)],
)
def test_an_attached_network_is_an_aib_model(network, at, channels, tmp_path):
    """Its outputs, the gradients of all of its parameters, and its files."""
    model, x = attached(network, at).train(), images()
    out = model(x, samples=(3, 2))
    assert out.sample_logits.shape == (3, 2, B, C) and out.latent.z.shape == (3, 2, B, K)
    assert out.attention.a_q.shape == out.attention.indices.shape == (3, *out.attention.mu.shape)
    aib.aib_loss(out, torch.arange(B)).total.backward()
    assert [n for n, p in model.named_parameters() if p.grad is None] == []
    assert model.attention.trunk.in_channels == channels
    model.eval().save_pretrained(tmp_path)
    for backbone in (network(), deepcopy(model)):
        loaded = aib.from_pretrained(tmp_path, backbone=backbone)
        again, before = loaded(x, deterministic=True), model(x, deterministic=True)
        assert torch.equal(again.logits, before.logits)


class Scaled(ResNet):
    """Its features of a blank image are 0 without biases, and so is what follows the head."""

    def forward(self, x):
        return 10 * F.normalize(super().forward(x))


def relu_twice():
    relu = nn.ReLU()
    network = nn.Sequential(nn.Conv2d(3, 4, 3), relu, nn.Conv2d(4, 4, 3), relu)
    return network.extend([nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 9)])


class Checkpointed(ResNet):
    """Computes its second layer again in the backward pass, to save memory."""

    def forward(self, x):
        x = self.layer1(self.bn1(self.conv1(x)))
        x = self.layer3(checkpoint(self.layer2, x, use_reentrant=False))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def test_gradient_checkpointing_is_an_error():
    model = attached(Checkpointed, latent_dim=None)
    loss = aib.aib_loss(model(images(B)), torch.arange(B)).total
    with pytest.raises(aib.AibError, match="turn off gradient checkpointing"):
        loss.backward()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quantizer": 1}, "quantizer must be"),
        ({"image_size": 2.5}, "image_size must be"),
        ({"head_norm": True}, "no option 'head_norm'"),
        ({"area": 0.5}, "no option 'area'"),
        ({"masked": True, "quantizer": 4}, "no option 'quantizer'"),
        ({"at": "layer22"}, "no layer 'layer22'.*layer2"),
        ({"at": "layer2.-3"}, "no layer 'layer2.-3'"),
        ({"at": "layer2.1.conv2"}, "layer2.1.conv2.*skip connection"),
        ({"at": "avgpool", "masked": True}, r"gives \[2, 16, 1, 1\].*no grid"),
        ({"network": relu_twice, "at": "1"}, "must run once"),
        ({"network": lambda: ViT(size=32), "at": "norm", "image_size": 16}, "16 x 16 do not pass"),
        ({"network": ViT, "at": "blocks.1"}, r"gives \[2, 65, 8\] .*masked=True"),
        ({"head": "conv1"}, "head 'conv1' must be a Linear layer, not Conv2d"),
        ({"network": lambda: nn.Sequential(nn.Conv2d(3, 3, 1)), "at": "0"}, "no Linear layer"),
        ({"network": Scaled}, "must end in its head 'fc'"),
    ],
)
def test_what_cannot_be_attached_is_an_error(options, message):
    with pytest.raises(aib.AibError, match=message):
        attached(**options)


def test_an_attached_network_does_not_load_into_another_one(tmp_path):
    attached(DenseNet, "features").save_pretrained(tmp_path)
    with pytest.raises(aib.AibError, match="ResNet has no layer 'classifier'"):
        aib.from_pretrained(tmp_path, backbone=ResNet())
    attached().save_pretrained(tmp_path)
    with pytest.raises(aib.AibError, match="profile is 'paper' in the file and 'released' in"):
        aib.from_pretrained(tmp_path, backbone=attached(profile="released", modulation="gate"))


def test_the_tail_runs_once_per_attention_sample_and_the_stem_once():
    model, batches = attached().eval(), {}
    for name in ("layer1", "layer2", "layer3"):
        model.get_submodule(f"tail.{name}").register_forward_hook(
            lambda _, args, __, n=name: batches.update({n: len(args[0])})
        )
    model(images(), samples=(4, 1))
    assert batches == {"layer1": B, "layer2": B, "layer3": 4 * B}


def test_attention_at_a_layer_is_the_composition_of_the_two_halves():
    """attach() against the same network cut in two by hand."""
    whole = attached(quantizer=None).eval()
    net, x = whole.tail, images()
    out = whole(x, samples=(2, 2))
    f = net.layer1(net.relu(net.bn1(net.conv1(x))))
    for block in net.layer2:  # layer2 without its hook
        f = block(f)
    mu, _sigma, _ = whole.attention(f)
    torch.testing.assert_close(out.attention.mu, mu)
    gated = (f[None] * out.attention.a[:, :, None]).flatten(0, 1)
    encoded = whole.head.encode(net.avgpool(net.layer3(gated)).flatten(1))
    torch.testing.assert_close(out.latent.mu.flatten(0, 1), encoded[:, :K])


@pytest.mark.parametrize(("masked", "part"), [(False, "tail"), (True, "body")])
def test_the_callers_network_is_copied_with_its_weights_and_not_changed(masked, part):
    network, x = ResNet().train(), images()
    before = deepcopy(network.state_dict())
    model = aib.attach(network, at="layer2", num_classes=C, image_size=32, masked=masked)
    for name, value in network.named_buffers():
        assert torch.equal(model.get_submodule(part).get_buffer(name), value)
    first = model.get_submodule(part).conv1.weight
    assert torch.equal(first, network.conv1.weight)
    torch.nn.init.zeros_(first)
    torch.testing.assert_close(network.state_dict(), before, rtol=0, atol=0)
    assert isinstance(network.fc, nn.Linear) and network.training
    assert network(x).shape == (B, 7)


def test_an_attached_network_has_the_images_of_the_preprocessing_and_the_type_of_the_backbone():
    policy = aib.Preprocessing(image_size=48, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    model = attached(lambda: ResNet().double(), image_size=None, preprocessing=policy)
    assert model.recipe["image_size"] == 48 and model.preprocessing == policy
    assert {p.dtype for p in model.parameters()} == {torch.float64}


def test_a_copy_attends_for_itself():
    model, x = attached(quantizer=None).eval(), images()
    copy = deepcopy(model)
    torch.nn.init.zeros_(copy.attention.trunk.weight)
    torch.nn.init.zeros_(copy.attention.trunk.bias)
    assert (copy(x, deterministic=True).attention.mu == 0.5).all()
    assert not (model(x, deterministic=True).attention.mu == 0.5).all()
