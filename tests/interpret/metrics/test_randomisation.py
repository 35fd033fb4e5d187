import copy

import pytest
import torch
from torch import nn

import aib
from aib.interpret.maps import own_maps
from aib.interpret.measures.randomisation import randomise, randomise_layers
from tests.models.networks.small import ViT


class Net(nn.Module):
    """A map half-way: the head, though registered first, stands behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        self.score = nn.Conv2d(4, 1, 1)
        self.gain = Gain()

    def attend(self, x):
        return self.gain(self.score(self.stem(x)))[:, 0].sigmoid()

    def forward(self, x):
        return self.head((self.stem(x) * self.attend(x)[:, None]).mean((2, 3)))


class Gain(nn.Module):
    """A parameter without `reset_parameters`."""

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.tensor([2.0]))

    def forward(self, x):
        return self.value * x


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net()


def maps(model, x):
    return model.attend(x)


X = torch.rand(4, 3, 12, 12, generator=torch.Generator().manual_seed(0))
X32 = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def test_the_cascade_starts_at_the_output_and_layers_behind_the_map_do_not_move_it(net):
    changes = {change.layer: change for change in randomise_layers(net, maps, X)}
    assert list(changes) == ["head", "gain", "score", "stem.1", "stem.0"]
    head = changes["head"]
    assert head.cosine == pytest.approx(1) and head.pearson == pytest.approx(1)
    assert head.flat == 0
    assert changes["stem.0"].pearson < 0.9


def test_the_last_layer_of_an_attention_comes_just_before_the_attention():
    torch.manual_seed(0)
    model = aib.attach(ViT(), "blocks.1", 4, image_size=32, masked=True)
    changes = randomise_layers(model, own_maps, X32)
    names = [change.layer for change in changes]
    for block in ("body.blocks.0", "body.blocks.1"):
        last = names.index(f"{block}.self_attention.out_proj")
        assert names[last + 1] == f"{block}.self_attention"
    assert names[0] == "head" and changes[0].pearson == pytest.approx(1)


def test_the_model_and_the_generator_stay_as_they_were(net):
    net.train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    generator = torch.get_rng_state()
    first = randomise_layers(net, maps, X, seed=3)
    assert torch.equal(generator, torch.get_rng_state())
    assert net.training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert not any(module._forward_hooks for module in net.modules())
    assert first == randomise_layers(net, maps, X, seed=3)
    assert first != randomise_layers(net, maps, X, seed=4)


def test_the_layout_of_the_weights_in_memory_does_not_choose_the_random_ones(net):
    apart = copy.deepcopy(net).to(memory_format=torch.channels_last)  # as commands open a run
    for one, other in zip(
        randomise_layers(net, maps, X), randomise_layers(apart, maps, X), strict=True
    ):
        assert one.pearson == pytest.approx(other.pearson, abs=1e-3), one.layer


def test_a_map_that_turns_flat_is_counted(net):
    found = randomise_layers(net, lambda m, x: x[:, 0] * float(m.gain.value.detach() == 2), X)
    [gain] = [change for change in found if change.layer == "gain"]
    assert gain.flat == 4 and gain.cosine == 0 and gain.pearson is None


def test_parameters_without_a_reset_keep_their_scale():
    module = nn.Module()
    module.table = nn.Parameter(5 + 0.1 * torch.randn(10_000))
    before = module.table.detach().clone()
    randomise(module)
    after = module.table.detach()
    assert not torch.equal(before, after)
    assert abs(float(after.mean()) - 5) < 0.01 and abs(float(after.std()) - 0.1) < 0.01


def test_maps_that_random_weights_make_nan_have_no_similarity():
    def attend(model, x):
        return model.attend(x) if model.gain.value == 2 else torch.full((2, 8, 8), torch.nan)

    change = randomise_layers(Net(), attend, torch.rand(2, 3, 8, 8))[-1]
    assert change.cosine is change.pearson is None
