"""attach(): a whole CNN of somebody else's, shown on a ResNet-like and a DenseNet-like one."""

from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import aib
from aib.export import export
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
    """Its outputs, the gradients of all of its parameters, its files."""
    model, x, y = attached(network, at).train(), images(), torch.arange(B)
    out = model(x, samples=(3, 2))
    assert out.sample_logits.shape == (3, 2, B, C) and out.latent.z.shape == (3, 2, B, K)
    assert out.attention.a_q.shape == out.attention.indices.shape == (3, *out.attention.mu.shape)
    aib.aib_loss(out, y).total.backward()
    assert [n for n, p in model.named_parameters() if p.grad is None] == []
    assert model.attention.trunk.in_channels == channels
    model.eval().save_pretrained(tmp_path)
    loaded = aib.from_pretrained(tmp_path, backbone=network())
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


def flat():
    return nn.Sequential(nn.Conv2d(3, 4, 3, 4), nn.Flatten(), nn.Linear(256, 8), nn.Linear(8, 3))


def relu_twice():
    relu = nn.ReLU()
    network = nn.Sequential(nn.Conv2d(3, 4, 3), relu, nn.Conv2d(4, 4, 3), relu)
    return network.extend([nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 9)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"latent_dim": 2.5}, "latent_dim must be .*, not 2.5"),
        ({"attention_noise": 0.2}, "attach has no option 'attention_noise'"),
        ({"num_classes": -1}, "not -1"),
        ({"at": "layer22"}, "no layer 'layer22'.*layer2"),
        ({"at": nn.ReLU()}, "at must be a string or None, not ReLU"),
        ({"head": 5}, "head must be a string or None, not 5"),
        ({"at": "zzz"}, "no layer 'zzz'.*conv1"),
        ({"at": "layer2.1.conv2"}, "layer2.1.conv2.*skip connection"),
        ({"at": "layer2.0.downsample"}, "layer2.0.downsample.*skip connection"),
        ({"network": DenseNet, "at": "features.denseblock1.0.conv"}, "skip connection"),
        ({"network": flat, "at": "1"}, r"'1' must give features .* gives \[2, 256\]"),
        ({"network": flat, "at": "1", "masked": True}, r"'1' must give a grid .* gives \[2, 256\]"),
        ({"network": relu_twice, "at": "1"}, "'1' runs more than once"),
        ({"network": relu_twice, "at": "1", "masked": True}, "'1' runs more than once"),
        ({"network": Idle, "at": "idle"}, "'idle' does not run"),
        ({"network": Grey}, "not pass to 'layer2' .*1 channels.*takes only images, of three"),
        ({"network": Captioned}, "not pass to 'layer2' .*missing 1 required positional"),
        ({"network": ViT, "at": "blocks.1"}, r"gives \[2, 65, .*masked=True takes tokens"),
        ({"network": lambda: ResNet}, "backbone must be a network .*, not <class"),
        ({"head": "conv1"}, "head 'conv1' must be a Linear layer, not Conv2d"),
        ({"network": lambda: nn.Sequential(nn.Conv2d(3, 3, 1)), "at": "0"}, "no Linear layer"),
        (
            {"network": lambda: nn.Sequential(ResNet(), nn.LogSoftmax(1)), "at": "0.layer2"},
            "'0.fc', and something comes after it",
        ),
    ],
)
def test_what_cannot_be_attached_is_an_error(options, message):
    with pytest.raises(aib.AibError, match=message):
        attached(**options)


@pytest.mark.parametrize("name", ["evaluate", "explain", "export"])
def test_a_network_that_nothing_is_attached_to_is_no_model(name, tmp_path):
    other = {"evaluate": None, "explain": images(), "export": tmp_path / "net.onnx"}[name]
    function = export if name == "export" else getattr(aib, name)
    with pytest.raises(aib.AibError, match=f"{name} takes a model of aib, not a ResNet"):
        function(ResNet(), other)


@pytest.mark.parametrize("masked", [False, True])
def test_parts_of_a_layer_are_counted_from_its_end_too(masked):
    """As docs/networks.md writes its defaults."""
    options = {"masked": masked, "latent_dim": None, "quantizer": None}
    assert attached(at="layer2.-1", **options).recipe["at"] == "layer2.1"
    with pytest.raises(aib.AibError, match="no layer 'layer2.-3'; close to it: layer2"):
        attached(at="layer2.-3", **options)


def test_a_part_that_occurs_twice_counts_twice():
    relu = nn.ReLU()
    network = nn.Sequential(nn.Conv2d(3, 3, 1), relu, nn.Conv2d(3, 3, 1), relu)
    assert name_from_start(network, "-1") == "3"


def test_a_model_in_half_precision_says_what_explains_a_picture():
    with pytest.raises(aib.AibError, match=r"torch.float16, as the weights .*model.float\(\)"):
        aib.explain(attached().half(), (255 * images().sigmoid()).byte())


def test_images_that_are_no_tensor_are_an_error():
    with pytest.raises(aib.AibError, match="images must be a tensor .*, not a ndarray"):
        attached()(images().numpy())


def test_an_attached_network_does_not_load_into_another_one(tmp_path):
    attached(DenseNet, "features").save_pretrained(tmp_path)
    with pytest.raises(aib.AibError, match=r"from a ResNet: .* has no layer"):
        aib.from_pretrained(tmp_path, backbone=ResNet())


def test_the_tail_runs_once_per_attention_sample_and_the_stem_once():
    model, batches = attached().eval(), {}
    for name in ("layer1", "layer2", "layer3"):
        model.get_submodule(f"tail.{name}").register_forward_hook(
            lambda _, args, __, n=name: batches.update({n: len(args[0])})
        )
    model(images(), samples=(4, 1))
    assert batches == {"layer1": B, "layer2": B, "layer3": 4 * B}


def test_attention_at_a_layer_is_the_composition_of_the_two_halves():
    """attach() against the same network cut in two by hand and given to AIB."""
    network = ResNet().eval()
    whole = aib.attach(network, at="layer2", num_classes=C, latent_dim=K, image_size=32).eval()
    net = whole.tail
    stem = nn.Sequential(net.conv1, net.bn1, net.relu, net.layer1)
    tail = nn.Sequential(net.layer3, net.avgpool, nn.Flatten())
    x = images()
    out = whole(x, samples=(2, 2))
    # by hand: layer2 without its hook
    f = stem(x)
    for block in net.layer2:
        f = block(f)
    mu, _sigma, _ = whole.attention(f)
    torch.testing.assert_close(out.attention.mu, mu)
    gated = (f[None] * out.attention.a[:, :, None]).flatten(0, 1)
    encoded = whole.head.encode(tail(gated))
    torch.testing.assert_close(out.latent.mu.flatten(0, 1), encoded[:, :K])


def test_a_pass_that_failed_leaves_no_trace():
    model, x = attached().eval(), images()
    with pytest.raises(aib.AibError, match="noise for a"):
        model(x, noise=(torch.randn(1), None))
    assert model(x).logits.shape == (B, C)


@pytest.mark.parametrize(("masked", "part"), [(False, "tail"), (True, "body")])
def test_the_callers_network_is_copied_with_its_weights_and_not_changed(masked, part):
    network, x = ResNet().train(), images()
    before = {k: v.clone() for k, v in network.state_dict().items()}
    model = aib.attach(network, at="layer2", num_classes=C, image_size=32, masked=masked)
    first = model.get_submodule(part).conv1.weight
    assert torch.equal(first, network.conv1.weight)
    torch.nn.init.zeros_(first)
    after = network.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[k], before[k]) for k in before)
    assert isinstance(network.fc, nn.Linear) and network.training
    assert network(x).shape == (B, 7)


@pytest.mark.parametrize(
    "network",
    [Swin(12), Swin(8), Swin(12, size=32)],
    ids=["told by the shape", "8 x 8 x 8: told by a larger image", "takes one size only"],
)
def test_features_with_channels_last_are_refused(network):
    shape = rf"\[2, 8, 8, {network.head.in_features}\] for 2 images of 32 x 32"
    for at in ("features.0", "features.1", "norm"):
        with pytest.raises(aib.AibError, match=f"{at}' gives channels last, {shape}.*masked"):
            aib.attach(network, at=at, num_classes=C, image_size=32)
    model = aib.attach(network, at="permute", num_classes=C, image_size=32)
    assert model(images()).attention.mu.shape == (B, 8, 8)


@pytest.mark.parametrize(
    "stem",
    [
        nn.Conv2d(3, 8, 4, 4),  # [B,8,8,8]
        nn.Conv2d(3, 8, (4, 2), (4, 2)),  # [B,8,8,16]: h is not w, and c is h
        nn.Sequential(nn.Conv2d(3, 8, 4, 4), nn.AdaptiveAvgPool2d(8)),  # the same for any image
        nn.Sequential(nn.Conv2d(3, 8, 4, 4), nn.Flatten(), nn.Unflatten(1, (8, 8, 8))),  # one size
        nn.Sequential(nn.Conv2d(3, 4, 4, 4), nn.Flatten(), nn.Unflatten(1, (-1, 4, 4))),
    ],
)
def test_features_with_channels_first_are_never_taken_for_channels_last(stem):
    channels = stem(images()).shape[1]
    network = nn.Sequential(stem, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 7))
    model = aib.attach(network, at="0", num_classes=C, image_size=32)
    assert model.attention.trunk.in_channels == channels


class Standardised(ResNet):
    """Scales each image by its own mean and standard deviation, which of a blank one is 0."""

    def forward(self, x):
        axes = (1, 2, 3)
        return super().forward((x - x.mean(axes, keepdim=True)) / x.std(axes, keepdim=True))


class Scaled(ResNet):
    """Without biases its features of a blank image are 0, and so is what comes after the head."""

    def forward(self, x):
        return 10 * F.normalize(super().forward(x))


@pytest.mark.parametrize("masked", [False, True])
def test_what_comes_after_the_head_is_found_for_any_network(masked):
    options = {"at": "layer2", "num_classes": C, "image_size": 32, "masked": masked}
    model = aib.attach(Standardised(), **options).eval()
    assert model(images()).logits.isfinite().all()
    with pytest.raises(aib.AibError, match="something comes after it"):
        aib.attach(Scaled(), **options)


class Lazy(ResNet):
    def __init__(self):
        super().__init__()
        self.fc = nn.LazyLinear(7)


class OfAnotherTensor(ResNet):
    """Its weight is computed, as that of torch.nn.utils.weight_norm."""

    def __init__(self):
        super().__init__()
        kernel = self.conv1.weight * 2
        del self.conv1.weight
        self.conv1.weight = kernel


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: nn.DataParallel(ResNet()), "DataParallel wraps a network: .* its `.module`"),
        (lambda: torch.compile(ResNet(), backend="eager"), "before it is compiled"),
        (lambda: torch.jit.script(flat()), "attach to the network that was scripted"),
        (Lazy, "Lazy has lazy layers: pass a batch through it first"),
        (lambda: ResNet().to("meta"), "ResNet has no weights yet: it is on the meta device"),
        (OfAnotherTensor, "OfAnotherTensor cannot be copied .* torch.nn.utils.parametrizations"),
    ],
)
def test_a_network_that_cannot_be_changed_is_refused(make, said, masked):
    with pytest.raises(aib.AibError, match=said):
        aib.attach(make(), at="layer2", num_classes=C, image_size=32, masked=masked)


def test_preprocessing_gives_the_image_size():
    policy = aib.Preprocessing(image_size=48, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    options = {"at": "layer2", "num_classes": C, "preprocessing": policy}
    model = aib.attach(ResNet(), **options)
    assert model.recipe["image_size"] == 48 and model.preprocessing == policy
    with pytest.raises(aib.AibError, match="image_size is 32, and preprocessing says 48"):
        aib.attach(ResNet(), image_size=32, **options)


class TwoParts(GoogLeNet):
    """Gives more in training than logits of heads that end in a Linear layer."""

    def outputs(self, logits, aux2, aux1):
        return logits, aux1.softmax(1)


class Record(GoogLeNet):
    def outputs(self, logits, aux2, aux1):
        return {"logits": logits}


@pytest.mark.parametrize(("network", "output"), [(TwoParts, "a tuple"), (Record, "a dict")])
def test_a_training_output_without_logits_is_refused_before_training(network, output):
    for backbone in (network().train(), network().eval()):
        with pytest.raises(
            aib.AibError, match=f"in training mode {network.__name__} gives {output}"
        ):
            aib.attach(backbone, at="conv1", num_classes=C, image_size=32)
    model = aib.attach(network(aux_logits=False), at="conv1", num_classes=C, image_size=32).train()
    aib.aib_loss(model(images()), torch.arange(B)).total.backward()


@pytest.mark.parametrize("training", [True, False])
def test_attaching_leaves_statistics_modes_and_random_numbers_alone(training):
    network = GoogLeNet(aux_logits=False).train(training)
    torch.manual_seed(0)
    model = aib.attach(network, at="conv1", num_classes=C, image_size=32)
    for name, value in network.named_buffers():
        assert torch.equal(model.tail.get_buffer(name), value)
    assert {layer.training for layer in model.tail.modules()} == {True, training}  # Identity: True
    network.dropout = nn.Identity()  # draws nothing
    torch.manual_seed(0)
    again = aib.attach(network, at="conv1", num_classes=C, image_size=32)
    assert torch.equal(again.attention.trunk.weight, model.attention.trunk.weight)


def test_a_network_whose_batch_norm_is_for_several_gpus_is_attached_on_a_cpu():
    network = nn.SyncBatchNorm.convert_sync_batchnorm(ResNet())
    model = aib.attach(network, at="layer2", num_classes=C, image_size=32)
    assert model.eval()(images()).logits.shape == (B, C)


def test_a_head_inside_a_sequential_is_found_and_named():
    network = nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    network.append(nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 9)))
    model = aib.attach(network, at="0", num_classes=C, image_size=32)
    assert model.recipe["head"] == "3.1"
    assert model(images()).logits.shape == (B, C)


def test_an_attached_network_keeps_the_type_of_the_backbone():
    model = aib.attach(ResNet().double(), at="layer2", num_classes=C, image_size=32, quantizer=3)
    assert {p.dtype for p in model.parameters()} == {torch.float64}
    assert model(images().double()).logits.dtype == torch.float64


def test_a_copy_attends_for_itself():
    model, x = attached().eval(), images()
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
    model = aib.attach(SharesMemory(), at="layer2", num_classes=C, image_size=32).eval()
    model.save_pretrained(tmp_path)
    loaded = aib.from_pretrained(tmp_path, backbone=SharesMemory())
    x = images(2)
    wanted = model(x, deterministic=True).logits
    assert torch.equal(loaded(x, deterministic=True).logits, wanted)


class Checkpointed(ResNet):
    """Computes its second layer again in the backward pass, to save memory."""

    def forward(self, x):
        x = self.layer1(self.bn1(self.conv1(x)))
        x = self.layer3(checkpoint(self.layer2, x, use_reentrant=False))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def test_gradient_checkpointing_is_refused_where_the_attention_is():
    loss = aib.aib_loss(attached(Checkpointed)(images(B)), torch.arange(B)).total
    with pytest.raises(aib.AibError, match="turn off gradient checkpointing"):
        loss.backward()
