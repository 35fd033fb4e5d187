"""attach(): any network gains attention, shown on a ResNet-like and a DenseNet-like one."""

from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import aib
from aib.models.networks.layers import name_from_start
from tests.helpers import images
from tests.models.networks.libraries import GoogLeNet
from tests.models.networks.small import DenseNet, ResNet, Swin, ViT

B, C, K = 2, 5, 8


def attached(network=ResNet, at="layer2", **options):
    options = {"quantizer": 4, "latent_dim": K, "image_size": 32, "num_classes": C, **options}
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


class Idle(ResNet):
    def __init__(self):
        super().__init__()
        self.idle = nn.Conv2d(3, 3, 1)
        self.fc = nn.Linear(16, 7)


class Grey(ResNet):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3)


class Captioned(ResNet):
    def forward(self, x, caption):
        return super().forward(x)


class Scaled(ResNet):
    """Its features of a blank image are 0 without biases, and so is what follows the head."""

    def forward(self, x):
        return 10 * F.normalize(super().forward(x))


class OfAnotherTensor(ResNet):
    """Its weight is computed, as that of torch.nn.utils.weight_norm."""

    def __init__(self):
        super().__init__()
        kernel = self.conv1.weight * 2
        del self.conv1.weight
        self.conv1.weight = kernel


def flat():
    return nn.Sequential(nn.Conv2d(3, 4, 3, 4), nn.Flatten(), nn.Linear(256, 8), nn.Linear(8, 3))


def relu_twice():
    relu = nn.ReLU()
    network = nn.Sequential(nn.Conv2d(3, 4, 3), relu, nn.Conv2d(4, 4, 3), relu)
    return network.extend([nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 9)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"latent_dim": 2.5}, "latent_dim must be"),
        ({"quantizer": 1}, "quantizer must be"),
        ({"num_classes": -1}, "not -1"),
        ({"image_size": 2.5}, "image_size must be"),
        ({"masked": 1}, "masked must be true or false"),
        ({"attention_noise": 0.2}, "no option 'attention_noise'"),
        ({"map_size": 8}, "no option 'map_size'"),
        ({"area": 0.5}, "area does not apply"),
        ({"masked": True, "modulation": "gate"}, "modulation does not apply"),
        ({"evaluator": True, "quantizer": 4}, "quantizer does not apply"),
        ({"at": "layer22"}, "no layer 'layer22'.*layer2"),
        ({"at": "layer2.-3"}, "no layer 'layer2.-3'"),
        ({"at": nn.ReLU()}, "at must be a string"),
        ({"at": None}, "name the layer"),
        ({"at": "layer2.1.conv2"}, "layer2.1.conv2.*skip connection"),
        ({"at": "layer2.0.downsample"}, "layer2.0.downsample.*skip connection"),
        ({"network": DenseNet, "at": "features.denseblock1.0.conv"}, "skip connection"),
        ({"network": flat, "at": "1"}, r"gives \[2, 256\].*no grid"),
        ({"network": flat, "at": "1", "masked": True}, r"gives \[2, 256\].*no grid"),
        ({"at": "avgpool", "masked": True}, r"gives \[2, 16, 1, 1\].*no grid"),
        ({"network": relu_twice, "at": "1"}, "must run once"),
        ({"network": relu_twice, "at": "1", "masked": True}, "must run once"),
        ({"network": Idle, "at": "idle"}, "must run once"),
        ({"network": Grey}, "do not pass to 'layer2' .*1 channels"),
        ({"network": Captioned}, "do not pass to 'layer2' .*missing 1 required positional"),
        (
            {"network": lambda: ViT(size=32), "at": "norm", "image_size": 16},
            "16 x 16 images do not pass",
        ),
        ({"network": ViT, "at": "blocks.1"}, r"gives \[2, 65, 8\] and not .*masked=True"),
        ({"network": lambda: Swin(12), "at": "norm"}, r"gives \[2, 8, 8, 12\] and not .*masked"),
        ({"network": lambda: ResNet}, "backbone must be a network"),
        ({"network": OfAnotherTensor}, "OfAnotherTensor cannot be copied"),
        ({"head": 5}, "head must be a string"),
        ({"head": "conv1"}, "head 'conv1' must be a Linear layer, not Conv2d"),
        ({"network": lambda: nn.Sequential(nn.Conv2d(3, 3, 1)), "at": "0"}, "no Linear layer"),
        ({"network": Scaled}, "must end in its head 'fc'"),
        ({"network": Scaled, "masked": True, "quantizer": None}, "must end in its head 'fc'"),
    ],
)
def test_what_cannot_be_attached_is_an_error(options, message):
    with pytest.raises(aib.AibError, match=message):
        attached(**options)


def test_parts_of_a_layer_are_counted_from_its_end_too():
    """As the defaults of library networks are."""
    assert attached(at="layer2.-1").recipe["at"] == "layer2.1"
    relu = nn.ReLU()  # a part that occurs twice counts twice
    network = nn.Sequential(nn.Conv2d(3, 3, 1), relu, nn.Conv2d(3, 3, 1), relu)
    assert name_from_start(network, "-1") == "3"


def test_images_that_are_no_tensor_are_an_error():
    with pytest.raises(aib.AibError, match="images must be a tensor .*, not a ndarray"):
        attached()(images().numpy())


def test_an_attached_network_does_not_load_into_another_one(tmp_path):
    attached(DenseNet, "features").save_pretrained(tmp_path)
    with pytest.raises(aib.AibError, match=r"from a ResNet: .* has no layer"):
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


def test_a_pass_that_failed_leaves_no_trace():
    model, x = attached().eval(), images()
    with pytest.raises(aib.AibError, match="noise for a"):
        model(x, noise=(torch.randn(1), None))
    assert model(x).logits.shape == (B, C)


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


def test_auxiliary_heads_are_left_out():
    """GoogLeNet and Inception v3 give a tuple in training."""
    network = GoogLeNet().train()
    assert isinstance(network(images()), tuple)
    model = aib.attach(network, at="inception4e", num_classes=C, image_size=32).train()
    aib.aib_loss(model(images()), torch.arange(B)).total.backward()
    assert [n for n, p in model.named_parameters() if p.grad is None] == []
    assert isinstance(network(images()), tuple), "the caller's network is not changed"


def test_attaching_draws_no_random_numbers_for_the_probe():
    networks = GoogLeNet(), GoogLeNet()
    networks[1].load_state_dict(networks[0].state_dict())
    networks[1].dropout = nn.Identity()  # draws nothing
    weights = []
    for network in networks:
        torch.manual_seed(0)
        model = aib.attach(network, at="conv1", num_classes=C, image_size=32)
        weights.append(model.attention.trunk.weight)
    assert torch.equal(*weights)


def test_preprocessing_gives_the_image_size():
    policy = aib.Preprocessing(image_size=48, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    model = attached(image_size=None, preprocessing=policy)
    assert model.recipe["image_size"] == 48 and model.preprocessing == policy


def test_a_head_inside_a_sequential_is_found_and_named():
    network = nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    network.append(nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 9)))
    model = aib.attach(network, at="0", num_classes=C, image_size=32)
    assert model.recipe["head"] == "3.1"
    assert model(images()).logits.shape == (B, C)


def test_an_attached_network_keeps_the_type_of_the_backbone():
    model = attached(lambda: ResNet().double())
    assert {p.dtype for p in model.parameters()} == {torch.float64}
    assert model(images().double()).logits.dtype == torch.float64


def test_a_copy_attends_for_itself():
    model, x = attached(quantizer=None).eval(), images()
    copy = deepcopy(model)
    torch.nn.init.zeros_(copy.attention.trunk.weight)
    torch.nn.init.zeros_(copy.attention.trunk.bias)
    assert (copy(x, deterministic=True).attention.mu == 0.5).all()
    assert not (model(x, deterministic=True).attention.mu == 0.5).all()


class SharesMemory(ResNet):
    """Two of its buffers are one tensor in two shapes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.zeros(2, 3))
        self.register_buffer("flat", self.table.view(6))


def test_tensors_that_share_memory_are_saved(tmp_path):
    model, x = attached(SharesMemory).eval(), images(2)
    model.save_pretrained(tmp_path)
    loaded = aib.from_pretrained(tmp_path, backbone=SharesMemory())
    expected = model(x, deterministic=True).logits
    assert torch.equal(loaded(x, deterministic=True).logits, expected)


class Checkpointed(ResNet):
    """Computes its second layer again in the backward pass, to save memory."""

    def forward(self, x):
        x = self.layer1(self.bn1(self.conv1(x)))
        x = self.layer3(checkpoint(self.layer2, x, use_reentrant=False))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def test_gradient_checkpointing_is_an_error_where_the_attention_is():
    loss = aib.aib_loss(attached(Checkpointed)(images(B)), torch.arange(B)).total
    with pytest.raises(aib.AibError, match="turn off gradient checkpointing"):
        loss.backward()
