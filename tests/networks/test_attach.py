"""attach(): a whole CNN of somebody else's, shown on a ResNet-like and a DenseNet-like one."""

import json
from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import aib
from tests.helpers import images
from tests.networks.libraries import GoogLeNet
from tests.networks.small import DenseNet, ResNet, Swin

B, C, K = 2, 5, 8


NETWORKS = [(ResNet, "layer1", 8), (ResNet, "layer2", 12), (DenseNet, "features.transition1", 8)]
parametrize_networks = pytest.mark.parametrize(("network", "at", "channels"), NETWORKS)


def attached(network=ResNet, at="layer2", **options):
    options = {"quantizer": 4, "latent_dim": K, "image_size": 32, **options}
    return aib.attach(network(), at=at, num_classes=C, **options)


@parametrize_networks
def test_an_attached_network_gives_the_same_output_as_any_aib_model(network, at, channels):
    out = attached(network, at).eval()(images(), samples=(3, 2))
    assert out.sample_logits.shape == (3, 2, B, C)
    assert out.attention.a_q.shape == out.attention.indices.shape == (3, *out.attention.mu.shape)
    assert out.latent.z.shape == (3, 2, B, K)


@parametrize_networks
def test_the_loss_reaches_every_parameter_of_an_attached_network(network, at, channels):
    model = attached(network, at).train()
    aib.aib_loss(model(images()), torch.arange(B)).total.backward()
    assert [n for n, p in model.named_parameters() if p.grad is None] == []
    assert model.attention.trunk.in_channels == channels


@parametrize_networks
def test_an_attached_network_is_saved_and_loaded_with_its_backbone(network, at, channels, tmp_path):
    model, x = attached(network, at).eval(), images()
    model.save_pretrained(tmp_path)
    loaded = aib.from_pretrained(tmp_path, backbone=network())
    expected = model(x, deterministic=True).logits
    assert torch.equal(loaded(x, deterministic=True).logits, expected)


@parametrize_networks
def test_an_attached_attention_can_be_guided(network, at, channels, tmp_path):
    model = attached(network, at, attention_guide=True).train()
    x, y = images(), torch.arange(B)
    out = model(x)
    assert out.aux_logits.shape == (B, C)
    terms = aib.aib_loss(out, y)
    torch.testing.assert_close(terms.auxiliary, F.cross_entropy(out.aux_logits, y))
    terms.total.backward()
    assert [n for n, p in model.named_parameters() if p.grad is None] == []
    assert model.attention.trunk.class_maps[0].in_channels == channels
    model.eval().save_pretrained(tmp_path)
    loaded = aib.from_pretrained(tmp_path, backbone=network())
    again, before = loaded(x, deterministic=True), model(x, deterministic=True)
    assert torch.equal(again.logits, before.logits)
    assert torch.equal(again.aux_logits, before.aux_logits)
    assert loaded.explain(x).attention.shape == (B, 32, 32)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"latent_dim": 2.5}, "latent_dim must be .*, not 2.5"),
        ({"attention_noise": 0.2}, "attach has no option 'attention_noise'"),
        ({"attention_guide": 1}, "attention_guide must be true or false, not 1"),
        ({"width": 0.5}, "attach has no option 'width'"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message):
    with pytest.raises(aib.AibError, match=message):
        attached(**options)


def test_an_option_that_the_file_does_not_name_has_its_default(tmp_path):
    model, x = attached().eval(), images()
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["model"]["profile"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    for backbone in (ResNet(), attached()):
        loaded = aib.from_pretrained(tmp_path, backbone=backbone)
        expected = model(x, deterministic=True).logits
        assert torch.equal(loaded(x, deterministic=True).logits, expected)
    with pytest.raises(aib.AibError, match="profile is 'paper' in the file and 'released' in"):
        aib.from_pretrained(tmp_path, backbone=attached(profile="released", modulation="gate"))


def test_an_attached_network_does_not_load_without_its_backbone(tmp_path):
    attached().save_pretrained(tmp_path)
    with pytest.raises(aib.AibError, match="backbone="):
        aib.from_pretrained(tmp_path)


def test_an_attached_network_does_not_load_into_another_one(tmp_path):
    attached(DenseNet, "features").save_pretrained(tmp_path)
    with pytest.raises(aib.AibError, match=r"no layer 'features'|no layer 'classifier'"):
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


def test_deterministic_passes_and_given_noise_work_as_elsewhere():
    model, x = attached().eval(), images()
    first, second = model(x, deterministic=True), model(x, deterministic=True)
    assert torch.equal(first.sample_logits, second.sample_logits)
    noise = torch.randn(2, B, 8, 8), torch.randn(2, 3, B, K)
    first, second = (model(x, samples=(2, 3), noise=noise) for _ in range(2))
    assert torch.equal(first.sample_logits, second.sample_logits)


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


def test_an_unknown_layer_lists_close_ones():
    with pytest.raises(aib.AibError, match=r"no layer 'layer22'.*layer2"):
        attached(at="layer22")
    with pytest.raises(aib.AibError, match=r"no layer 'zzz'.*conv1"):
        attached(at="zzz")


def test_a_layer_that_gives_no_feature_map_is_refused_with_its_shape():
    network = nn.Sequential(nn.Conv2d(3, 4, 3, 4), nn.Flatten(), nn.Linear(256, 8), nn.Linear(8, 3))
    with pytest.raises(aib.AibError, match=r"'1' must give features .* gives \[2, 256\]"):
        aib.attach(network, at="1", num_classes=C, image_size=32)


@pytest.mark.parametrize(
    "network",
    [Swin(12), Swin(8), Swin(12, size=32)],
    ids=["told by the shape", "8 x 8 x 8: told by a larger image", "takes one size only"],
)
def test_features_with_channels_last_are_refused(network):
    shape = rf"\[2, 8, 8, {network.head.in_features}\] for 2 images of 32 x 32"
    for at in ("features.0", "features.1", "norm"):
        with pytest.raises(aib.AibError, match=f"{at}' gives channels last, {shape}"):
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


def test_a_layer_inside_a_skip_connection_is_refused():
    for at in ("layer2.1.conv2", "layer2.0.downsample"):
        with pytest.raises(aib.AibError, match=f"{at}.*skip connection"):
            attached(at=at)
    with pytest.raises(aib.AibError, match="skip connection"):
        attached(DenseNet, "features.denseblock1.0.conv")


def test_a_layer_that_runs_twice_is_refused():
    relu = nn.ReLU()
    network = nn.Sequential(nn.Conv2d(3, 4, 3), relu, nn.Conv2d(4, 4, 3), relu)
    network.extend([nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 9)])
    with pytest.raises(aib.AibError, match="'1' runs more than once"):
        aib.attach(network, at="1", num_classes=C, image_size=32)


def test_a_layer_that_never_runs_is_refused():
    class Idle(ResNet):
        def __init__(self):
            super().__init__()
            self.idle = nn.Conv2d(3, 3, 1)
            self.fc = nn.Linear(16, 7)

    with pytest.raises(aib.AibError, match="'idle' does not run"):
        attached(Idle, "idle")


def test_a_head_that_is_not_linear_or_not_there_is_refused():
    with pytest.raises(aib.AibError, match="head 'conv1' must be a Linear layer, not Conv2d"):
        attached(head="conv1")
    with pytest.raises(aib.AibError, match="no Linear layer"):
        aib.attach(nn.Sequential(nn.Conv2d(3, 3, 1)), at="0", num_classes=C)


def test_a_network_that_goes_on_after_its_head_is_refused():
    network = nn.Sequential(ResNet(), nn.LogSoftmax(dim=1))
    with pytest.raises(aib.AibError, match=r"'0.fc', and something comes after it"):
        aib.attach(network, at="0.layer2", num_classes=C, image_size=32)


def test_a_head_inside_a_sequential_is_found_and_named():
    network = nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    network.append(nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 9)))
    model = aib.attach(network, at="0", num_classes=C, image_size=32)
    assert model.recipe["head"] == "3.1"
    assert model(images()).logits.shape == (B, C)


def test_the_number_of_classes_is_checked_before_anything_is_built():
    with pytest.raises(aib.AibError, match="not -1"):
        aib.attach(ResNet(), at="layer2", num_classes=-1)


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
