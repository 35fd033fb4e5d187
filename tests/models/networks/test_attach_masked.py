"""attach(masked=True): any network masks its own pixels, convolutional or a transformer."""

from copy import deepcopy

import pytest
import torch

import aib
from tests.helpers import images
from tests.models.networks.small import DenseNet, ResNet, Swin, TwoNames, ViT

B, C = 3, 5

# A network, a layer, and by hand its features as [B,c,h,w]: 4 x 4 positions of 32 x 32 pixels.
NETWORKS = {
    "resnet": (ResNet, "layer3", lambda f: f),
    "two names": (TwoNames, "layer3", lambda f: f),
    "densenet": (DenseNet, "features.transition1", lambda f: f),
    "swin": (lambda: Swin(12), "features.1", lambda f: f.permute(0, 3, 1, 2)),
    "vit": (ViT, "blocks.1", lambda f: f[:, 1:].transpose(1, 2).unflatten(2, (8, 8))),
    "vit of one size": (lambda: ViT(size=32), "norm", lambda f: f[:, 1:].mT.unflatten(2, (8, 8))),
    "registers": (lambda: ViT(prefix=5), "norm", lambda f: f[:, 5:].mT.unflatten(2, (8, 8))),
}
parametrize_networks = pytest.mark.parametrize("name", NETWORKS)


def attached(name="resnet", **options):
    network, at, _ = NETWORKS[name]
    arguments = {"at": at, "num_classes": C, "image_size": 32, "masked": True, **options}
    return aib.attach(network(), **arguments)


@parametrize_networks
def test_the_map_comes_from_the_features_of_a_first_pass(name):
    """Against the caller's network, a hook on its layer, and the proposal by hand."""
    make, at, to_grid = NETWORKS[name]
    network, x = make().eval(), images(B)
    model = aib.attach(network, at, C, image_size=32, masked=True, propose="twice").eval()
    features = []
    network.get_submodule(at).register_forward_hook(lambda _, __, f: features.append(f))
    network(x)
    score = model.propose.trunk[1](to_grid(features[0]))  # [B,1,h,w]
    out = model(x, samples=(2, 1))
    torch.testing.assert_close(out.attention.mu, score[:, 0].sigmoid())
    assert out.sample_logits.shape == (2, 1, B, C) and out.mask.shape == (2, B, 32, 32)
    assert 0.8 < out.mask.mean() < 1, "it starts open"


@pytest.mark.parametrize("latent_dim", [None, 6])
@pytest.mark.parametrize("name", ["resnet", "densenet", "swin", "vit of one size"])
def test_it_is_trained_saved_and_loaded_with_its_backbone(name, latent_dim, tmp_path):
    options = {"latent_dim": latent_dim, "area": 0.5}
    model, x = attached(name, noise_std=0.5, **options), images(B)
    out = model.train()(x)  # so that the two passes' statistics differ
    aib.aib_loss(out, torch.arange(B), area=0.1).total.backward()
    assert [n for n, p in model.named_parameters() if p.grad is None] == []
    expected = model.eval()(x, deterministic=True).logits
    model.save_pretrained(tmp_path)
    for backbone in (NETWORKS[name][0](), deepcopy(model)):
        loaded = aib.from_pretrained(tmp_path, backbone=backbone)
        assert torch.equal(loaded(x, deterministic=True).logits, expected)
        assert (loaded.recipe["area"], loaded.noise_std) == (0.5, 0.5)
    with pytest.raises(aib.AibError, match="noise_std is 0.5 in the file and 1.0 in"):
        aib.from_pretrained(tmp_path, backbone=attached(name, **options))


def test_a_layer_inside_a_skip_connection_may_be_read():
    assert attached(at="layer2.1.conv2")(images(B)).attention.mu.shape == (B, 8, 8)


@pytest.mark.parametrize(("name", "fine"), [("resnet", "layer2"), ("two names", "layer2")])
def test_the_map_comes_from_a_copy_of_the_network_up_to_the_layer(name, fine):
    """Against hooks on the caller's network; fine features count once their layer is trained."""
    make, at, _ = NETWORKS[name]
    network, x, features = make().eval(), images(B), {}
    for layer in (fine, at):
        hook = lambda _, __, f, layer=layer: features.update({layer: f.clone()})  # noqa: E731
        network.get_submodule(layer).register_forward_hook(hook)
    network(x)
    model = attached(name).eval()
    model.body.load_state_dict(network.state_dict(), strict=False)
    trunk = model.propose.trunk
    trunk.copy_from(model.body)
    torch.nn.init.normal_(trunk.add_fine.weight)
    large = torch.nn.functional.interpolate(features[at], scale_factor=2, mode="bilinear")
    score = trunk.to_score(large + trunk.add_fine(features[fine]))  # [B,1,h,w]
    out = model(x)
    torch.testing.assert_close(out.attention.mu, score[:, 0].sigmoid())
    assert out.attention.mu.shape == (B, 8, 8)
    kept = {name.split(".")[0] for name in trunk.stages.state_dict()}
    assert {"layer1", "layer2", "layer3"} <= kept and not kept & {"layer4", "fc", "head"}


def test_a_network_that_cannot_be_cut_looks_twice_unless_a_copy_is_asked_for():
    assert attached("vit").recipe["propose"] == "twice"
    with pytest.raises(aib.AibError, match="twice its size"):
        attached("vit", propose="copy")
    with pytest.raises(aib.AibError, match="looks twice or copies"):
        attached(propose="separate")


def test_a_head_for_as_many_classes_keeps_its_weights():
    network = ResNet()
    classes = network.fc.out_features
    model = aib.attach(network, "layer3", classes, image_size=32, masked=True).eval()
    x, opened = images(B), torch.ones(B, 32, 32)
    with torch.no_grad():
        expected = network.eval()(x)
        torch.testing.assert_close(
            model(x, mask=opened, samples=(1, 1)).logits.softmax(1), expected.softmax(1)
        )


def test_the_map_is_read_before_the_network_changes_the_features_in_place():
    """As DenseNet does: its ReLU sets features below 0 to 0."""
    network, x = DenseNet().eval(), images(B)
    model = aib.attach(network, "features", C, image_size=32, masked=True, propose="twice").eval()
    score = model.propose.trunk(network.features(x))  # [B,1,h,w]
    torch.testing.assert_close(model(x).attention.mu, score[:, 0].sigmoid())
