"""The twelve models of the paper: names, counts, costs, sizes, maps."""

from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import aib
from aib.backbones.vgg import conv_bn_relu, without_bias
from aib.bench.counts import measure
from tests.helpers import Numbers, fill

NARROW = 1 / 32
TWELVE = [
    "vgg",
    "vgg_gap",
    "vgg_pan",
    "vgg_dvib",
    "vgg_att2",
    "vgg_att3",
    "vgg_aib",
    "vgg_aib_qt",
    "wrn",
    "wrn_abn",
    "wrn_aib",
    "wrn_aib_qt",
]
AT_224 = ["vgg", "vgg_dvib", "vgg_aib", "vgg_aib_qt", "wrn", "wrn_aib", "wrn_aib_qt"]
WITH_ATTENTION = [n for n in TWELVE if n.endswith(("pan", "att2", "att3", "abn", "aib", "qt"))]


def count(name, num_classes=10, image_size=32, **options):
    with torch.device("meta"):
        model = aib.create_model(name, num_classes, image_size, **options)
    return sum(p.numel() for p in model.parameters())


def images(height=32, width=None, batch=2):
    return torch.randn(batch, 3, height, width or height)


@pytest.mark.parametrize(
    ("name", "num_classes", "image_size", "parameters"),
    [
        ("vgg_aib", 10, 32, 20_040_789),
        ("vgg_aib", 100, 32, 20_063_919),
        ("vgg_aib_qt", 10, 32, 20_040_789 + 20),
        ("wrn_aib", 10, 32, 65_004_500),
        ("wrn_aib", 100, 32, 65_109_260),
        ("wrn_aib_qt", 10, 32, 65_004_500 + 50),
        ("vgg_att3", 10, 32, 19_855_434),
        ("vgg_att3", 100, 32, 19_993_764),
        ("wrn_abn", 10, 32, 64_349_486),
        ("wrn_abn", 100, 32, 64_475_666),
        ("vgg_aib", 200, 224, 17_196_307),
        ("vgg_aib_qt", 200, 224, 24_275_751),
        ("wrn_aib", 200, 224, 109_990_675),
    ],
)
def test_released_models_have_exactly_the_parameters_of_the_released_code(
    name, num_classes, image_size, parameters
):
    assert count(name, num_classes, image_size, profile="released") == parameters


@pytest.mark.parametrize(
    ("name", "image_size"), [*((n, 32) for n in TWELVE), *((n, 224) for n in AT_224)]
)
def test_the_profiles_differ_by_the_kernel_of_sigma_and_by_vgg_aibs_attention_at_224(
    name, image_size
):
    released = count(name, 10, image_size, profile="released")
    paper = count(name, 10, image_size, profile="paper")
    difference = 3 * 3 - 1 if "aib" in name else 0
    if (name, image_size) == ("vgg_aib", 224):
        difference -= 3 * (512 * 512 * 9 + 512)
    assert released - paper == difference


def layers(module):
    """The module's tensors in order, as many at a time as a layer has."""
    tensors = (v for k, v in module.state_dict().items() if not k.endswith("tracked"))
    return lambda number: [next(tensors) for _ in range(number)]


def batch_norm(x, take):
    """In evaluation."""
    scale, shift, mean, variance = (t[:, None, None] for t in take(4))
    return (x - mean) / (variance + 1e-5).sqrt() * scale + shift


def vgg_rows(x, take, depths, pools):
    for depth, pool in zip(depths, pools, strict=True):
        for _ in range(depth):
            x = batch_norm(F.conv2d(x, *take(2), padding=1), take).relu()
        x = F.max_pool2d(x, 2) if pool else x
    return x


def wrn_group(x, take, stride):
    """Four blocks: where sizes change, the shortcut too sees the input after BN and ReLU."""
    for i in range(4):
        active = batch_norm(x, take).relu()
        y = F.conv2d(active, *take(1), stride=1 if i else stride, padding=1)
        y = F.conv2d(batch_norm(y, take).relu(), *take(1), padding=1)
        x = y + (x if i else F.conv2d(active, *take(1), stride=stride))
    return x


def vgg_stem(x, take):
    return vgg_rows(x, take, (2, 2, 3), (False, False, True))


def vgg_score(f, take):
    return F.conv2d(f, *take(2), padding=1)


def vgg_tail(f, take):
    f = vgg_rows(f, take, (3, 3, 1, 1), (True,) * 4)
    return F.conv2d(f, *take(2)).relu().flatten(1)


def vgg_decoder(z, take):
    return F.linear(F.linear(z, *take(2)).relu(), *take(2))


def wrn_stem(x, take):
    return wrn_group(wrn_group(F.conv2d(x, *take(1), padding=1), take, 1), take, 2)


def wrn_score(f, take):
    f = batch_norm(wrn_group(f, take, 1), take)  # no ReLU here
    f = batch_norm(F.conv2d(f, *take(1)), take).relu()
    return batch_norm(F.conv2d(f, *take(1), padding=1), take)


def wrn_tail(f, take):
    return batch_norm(wrn_group(f, take, 2), take).relu().mean((2, 3))


def wrn_decoder(z, take):
    return F.linear(z.relu(), *take(2))


REFERENCE = {
    "vgg": (vgg_stem, vgg_score, vgg_tail, vgg_decoder),
    "wrn": (wrn_stem, wrn_score, wrn_tail, wrn_decoder),
}


@pytest.mark.parametrize("profile", ["paper", "released"])
@pytest.mark.parametrize("name", ["vgg", "vgg_dvib", "vgg_aib_qt", "wrn", "wrn_aib_qt"])
def test_logits_map_and_sigma_are_those_of_the_layers_written_out(name, profile):
    """The paper's and the authors' layers as functions of the weights, without noise."""
    model = aib.create_model(name, 3, width=NARROW, latent_dim=4, profile=profile).double().eval()
    x = 2 * fill(model, Numbers(1))(2, 3, 32, 32)
    out = model(x, deterministic=True)
    stem, score, tail, decoder = REFERENCE[name[:3]]

    f = stem(x, layers(model.stem))
    if "aib" in name:
        mu = score(f, layers(model.attention.trunk)).sigmoid()
        weight, bias = layers(model.attention.to_sigma)(2)
        raw = F.conv2d(mu, weight, bias, padding=weight.shape[-1] // 2)
        sigma = (1 + (raw - 5).exp()).log() + 1e-4  # softplus and the floor, in both profiles
        torch.testing.assert_close(out.attention.mu, mu[:, 0])
        torch.testing.assert_close(out.attention.sigma, sigma[:, 0])
        anchors = model.quantizer.anchors.detach()
        a_q = anchors[(mu[..., None] - anchors).abs().argmin(-1)]
        f = f * (a_q if profile == "paper" else 1 + a_q)
    e = tail(f, layers(model.tail))
    take = layers(model.head)
    logits = F.linear(e, *take(2))
    if out.latent is not None:
        mu_z, raw = logits.chunk(2, 1)
        torch.testing.assert_close(out.latent.mu[0], mu_z)
        torch.testing.assert_close(out.latent.sigma[0], (1 + (raw - 5).exp()).log() + 1e-4)
        logits = decoder(mu_z, take)
    torch.testing.assert_close(out.sample_logits[0, 0], logits)


@pytest.mark.parametrize("backbone", ["vgg", "wrn"])
def test_quantising_adds_the_anchors_and_nothing_else(backbone):
    anchors = {"vgg": 20, "wrn": 50}[backbone]
    assert count(f"{backbone}_aib_qt") - count(f"{backbone}_aib") == anchors


def test_att2_is_att3_without_one_score_and_its_share_of_the_classifier():
    assert count("vgg_att3") - count("vgg_att2") == 512 + 512 * 10


def by_hand_vgg_aib(k=256, c=10):
    """Multiply-adds of the layers in the description, added up."""

    def conv(c_in, c_out, size, kernel=3):
        return c_in * c_out * kernel**2 * size**2

    widths = [(3, 64), (64, 64), (64, 128), (128, 128), (128, 256), (256, 256), (256, 256)]
    stem = sum(conv(a, b, 32) for a, b in widths)
    attention = conv(256, 1, 16) + conv(1, 1, 16, 1)
    tail = conv(256, 512, 16) + 2 * conv(512, 512, 16) + 3 * conv(512, 512, 8)
    tail += conv(512, 512, 4) + conv(512, 512, 2) + conv(512, 512, 1, 1)
    return stem + attention + tail + 512 * 2 * k + k * k + k * c


def test_multiply_adds_of_vgg_aib_are_those_of_its_layers():
    assert measure("vgg_aib").multiply_adds == by_hand_vgg_aib()


@pytest.mark.parametrize(
    ("name", "num_classes", "image_size", "giga"),
    [("vgg_aib", 10, 32, 3.787), ("wrn_aib", 10, 32, 12.38), ("wrn_aib", 200, 224, 19.62)],
)
def test_multiply_adds_of_one_sample(name, num_classes, image_size, giga):
    row = measure(name, num_classes, image_size)
    assert row.multiply_adds / 1e9 == pytest.approx(giga, abs=0.005)


def test_there_are_twelve_models():
    assert aib.list_models() == TWELVE


def test_models_are_listed_by_wildcard_size_and_exclusion():
    assert aib.list_models("wrn*") == ["wrn", "wrn_abn", "wrn_aib", "wrn_aib_qt"]
    assert aib.list_models("*aib*", exclude="tiny*") == [n for n in TWELVE if "aib" in n]
    assert aib.list_models(image_size=224) == AT_224
    assert aib.list_models("vgg_aib") == ["vgg_aib"]
    assert aib.list_models("resnet*") == []


def test_an_unknown_name_is_answered_with_close_ones():
    with pytest.raises(aib.AibError, match=r"no model 'vgg_aib_q'.*vgg_aib_qt"):
        aib.create_model("vgg_aib_q")


@pytest.mark.parametrize("name", [n for n in TWELVE if n not in AT_224])
def test_models_that_do_not_exist_at_224_say_so(name):
    with pytest.raises(aib.AibError, match=f"{name} exists for image_size 32, not 224"):
        aib.create_model(name, image_size=224)


@pytest.mark.parametrize("name", TWELVE)
def test_every_model_gives_logits_for_any_number_of_classes(name):
    for num_classes in (2, 7):
        model = aib.create_model(name, num_classes=num_classes, width=NARROW).eval()
        assert model(images(), samples=(2, 3)).logits.shape == (2, num_classes)


@pytest.mark.parametrize("name", AT_224)
def test_the_224_models_see_14_by_14_places(name):
    model = aib.create_model(name, num_classes=5, image_size=224, width=NARROW).eval()
    out = model(images(224, batch=1), samples=(1, 2))
    assert out.logits.shape == (1, 5)
    if "aib" in name:
        assert out.attention.mu.shape == (1, 14, 14)
        assert out.latent.mu.shape[-1] == 256


@pytest.mark.parametrize("size", [(40, 48), (64, 64)])
@pytest.mark.parametrize("name", TWELVE)
def test_other_image_sizes_pass_through_the_32_family(name, size):
    model = aib.create_model(name, num_classes=3, width=NARROW).eval()
    out = model(images(*size), samples=(2, 1))
    assert out.logits.shape == (2, 3)
    if name in WITH_ATTENTION:
        assert out.attention.mu.shape[1:] == (size[0] // 2, size[1] // 2)


@pytest.mark.parametrize("name", ["vgg_aib_qt", "wrn_aib"])
def test_even_224_passes_through_the_32_family(name):
    model = aib.create_model(name, num_classes=3, width=NARROW).eval()
    out = model(images(224, batch=1), samples=(1, 1))
    assert out.attention.mu.shape == (1, 112, 112)


@pytest.mark.parametrize("name", [*TWELVE, "tiny_aib"])
def test_images_too_small_for_the_strides_are_refused_and_the_smallest_is_not(name):
    model = aib.create_model(name, num_classes=3, width=NARROW).train()
    smallest = model.min_size
    assert model(images(smallest)).logits.shape == (2, 3)
    with pytest.raises(aib.AibError, match=rf"{smallest - 1} x {smallest} are too small"):
        model(images(smallest - 1, smallest))


@pytest.mark.parametrize("name", ["vgg_aib", "wrn_aib"])
def test_at_224_images_too_small_are_refused_and_the_smallest_is_not(name):
    model = aib.create_model(name, num_classes=3, image_size=224, width=NARROW).train()
    assert model(images(model.min_size)).logits.shape == (2, 3)
    with pytest.raises(aib.AibError, match="too small"):
        model(images(model.min_size - 1))


@pytest.mark.parametrize("name", WITH_ATTENTION)
def test_every_attention_model_shows_its_map_in_the_same_fields(name):
    model = aib.create_model(name, num_classes=3, width=NARROW).eval()
    attention = model(images(), samples=(2, 1)).attention
    assert attention.mu.shape == (2, 16, 16)
    assert attention.a.shape == attention.a_q.shape
    assert attention.a.shape[1:] == (2, 16, 16)
    assert attention.maps[0] is attention.mu
    assert (attention.sigma is None) == ("aib" not in name)
    assert (attention.mu >= 0).all() and (attention.mu <= 1).all()


@pytest.mark.parametrize(
    ("name", "sizes"), [("vgg_att2", [16, 8]), ("vgg_att3", [16, 8, 4]), ("vgg_pan", [16, 8, 4])]
)
def test_models_with_several_maps_score_the_first_and_give_them_all(name, sizes):
    maps = aib.create_model(name, width=NARROW)(images()).attention.maps
    assert [list(m.shape) for m in maps] == [[2, size, size] for size in sizes]


@pytest.mark.parametrize("name", ["vgg_att2", "vgg_att3"])
def test_the_maps_of_pay_attention_share_out_one(name):
    maps = aib.create_model(name, width=NARROW)(images()).attention.maps
    for m in maps:
        torch.testing.assert_close(m.sum((1, 2)), torch.ones(2))


def test_pay_attention_decides_from_the_attended_sums_alone():
    model = aib.create_model("vgg_att3", width=NARROW).eval()
    x, kept = images(), {}
    for part in ("project", "block4", "block5", "to_global"):
        getattr(model, part).register_forward_hook(lambda _, __, f, p=part: kept.update({p: f}))
    out = model(x)
    sums = []
    for i, part in enumerate(["project", "block4", "block5"]):
        u = model.compatibilities[i].score.weight.flatten()
        local, g = kept[part], kept["to_global"]
        scores = torch.einsum("bchw,c->bhw", local, u) + (g @ u)[:, None, None]
        share = scores.exp() / scores.exp().sum((1, 2), keepdim=True)
        torch.testing.assert_close(out.attention.maps[i], share)
        sums.append(torch.einsum("bchw,bhw->bc", local, share))
    logits = torch.cat(sums, 1) @ model.classify.weight.T + model.classify.bias
    torch.testing.assert_close(out.sample_logits[0, 0], logits)


def test_abn_has_a_second_head_with_its_own_loss():
    model = aib.create_model("wrn_abn", num_classes=4, width=NARROW)
    out, y = model(images()), torch.tensor([1, 3])
    assert out.aux_logits.shape == (2, 4)
    terms = aib.aib_loss(out, y)
    rows = out.aux_logits.softmax(1)[torch.arange(2), y]
    torch.testing.assert_close(terms.auxiliary, -rows.log().mean())
    torch.testing.assert_close(terms.total, terms.nll + terms.auxiliary)


def test_abn_modulates_by_one_plus_the_map_in_both_profiles():
    for profile in ("paper", "released"):
        model = aib.create_model("wrn_abn", width=NARROW, profile=profile).eval()
        seen = []
        model.tail.register_forward_pre_hook(lambda _, args, s=seen: s.append(args[0]))
        x = images()
        out = model(x)
        torch.testing.assert_close(seen[0], model.stem(x) * (1 + out.attention.mu[:, None]))


@pytest.mark.parametrize("name", TWELVE)
def test_the_profile_reaches_the_model_and_its_output(name):
    model = aib.create_model(name, width=NARROW, profile="released").eval()
    assert model.profile == model(images()).profile == "released"


def test_width_scales_the_backbone_and_not_the_latent():
    full, half = count("vgg_aib"), count("vgg_aib", width=0.5)
    assert 3.5 < full / half < 4.2
    model = aib.create_model("vgg_aib", width=0.5)
    assert model.head.latent_dim == 256
    assert model.attention.trunk.in_channels == 128


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"num_classes": 1}, "from 2 to .*, not 1"),
        ({"num_classes": 10**9}, "to 1,000,000, not 1000000000"),
        ({"num_classes": 2.5}, "2.5"),
        ({"width": 0}, "width .* not 0"),
        ({"width": float("nan")}, "width .* nan"),
        ({"dropout": 1.0}, "dropout .* not 1.0"),
        ({"latent_dim": 0}, "latent_dim .* not 0"),
        ({"latent_dim": -3}, "latent_dim .* not -3"),
        ({"num_anchors": 1}, "2 anchors, not 1"),
        ({"modulation": "add"}, "modulation .* not 'add'"),
        ({"profile": "ours"}, "profile .* not 'ours'"),
        ({"image_size": 64}, "image_size 32 or 224, not 64"),
    ],
)
def test_impossible_options_are_refused_with_their_value(options, named):
    with pytest.raises(aib.AibError, match=named):
        aib.create_model("vgg_aib_qt", **options)


def test_dropout_is_wrns_and_can_be_set():
    model = aib.create_model("wrn_aib", width=NARROW, dropout=0.1)
    assert {m.p for m in model.modules() if isinstance(m, torch.nn.Dropout)} == {0.1}


@pytest.mark.parametrize("name", ["vgg_aib", "vgg_aib_qt"])
@pytest.mark.parametrize(("tap", "side"), [(0, 16), (1, 8), (2, 4)])
def test_a_later_tap_has_the_same_layers_and_a_smaller_map(name, tap, side):
    here, there = (aib.create_model(name, width=1 / 16, tap=t).eval() for t in (0, tap))
    assert there(torch.randn(2, 3, 32, 32)).attention.mu.shape == (2, side, side)
    kinds = [
        [(type(m), getattr(m, "out_channels", 0)) for p in (model.stem, model.tail)
         for m in p.modules() if not list(m.children())]
        for model in (here, there)
    ]  # fmt: skip
    assert kinds[0] == kinds[1]


def test_a_bias_before_batchnorm_can_be_left_out_of_the_step():
    """Output, gradients and running statistics against the layers one after the other."""
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Conv2d(3, 5, 3, 2, padding=1), nn.BatchNorm2d(5)).double().train()
    nn.init.normal_(plain[0].bias)
    nn.init.normal_(plain[1].bias)
    short = deepcopy(plain)
    x = torch.randn(6, 3, 8, 8, dtype=torch.float64)
    for _ in range(2):
        for model, y in ((plain, plain(x)), (short, without_bias(*short, x))):
            model.zero_grad()
            y.pow(3).sum().backward()
    torch.testing.assert_close(without_bias(*short, x), plain(x))
    for (name, value), other in zip(
        plain.state_dict().items(), short.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(value, other, msg=name)
    for expected, found in zip(plain.parameters(), short.parameters(), strict=True):
        torch.testing.assert_close(found.grad, expected.grad, atol=1e-9, rtol=1e-9)


def test_the_three_layers_keep_the_names_of_a_plain_row():
    row = conv_bn_relu(3, 4)
    assert list(row.state_dict()) == list(nn.Sequential(*row).state_dict())


def test_a_deeper_attention_sees_further():
    def reach(depth: int) -> int:
        torch.manual_seed(0)
        model = aib.create_model("vgg_aib", width=1 / 16, attention_depth=depth).eval()
        f = torch.randn(1, 16, 15, 15, requires_grad=True)
        model.attention(f).mu[0, 7, 7].backward()
        return int((f.grad.abs().sum((0, 1)) > 0).any(0).sum())

    assert [reach(depth) for depth in (0, 1, 3)] == [3, 5, 9]


def test_the_attentions_noise_is_added_to_its_deviation(tmp_path):
    def sigma(noise: float) -> torch.Tensor:
        torch.manual_seed(0)
        model = aib.create_model("tiny_aib_qt", width=1 / 4, attention_noise=noise).eval()
        model.save_pretrained(tmp_path / str(noise))
        x = torch.linspace(-1, 1, 3 * 32 * 32).reshape(1, 3, 32, 32)
        found = model(x).attention.sigma
        torch.testing.assert_close(
            aib.from_pretrained(tmp_path / str(noise))(x).attention.sigma, found
        )
        return found

    torch.testing.assert_close(sigma(0.2), sigma(0.0) + 0.2)


def test_a_guided_attention_is_made_of_class_maps_that_a_second_head_teaches(tmp_path):
    """Against the layers written out, in evaluation, where BatchNorm is a line."""
    torch.manual_seed(0)
    options = {"width": 1 / 8, "num_classes": 3, "attention_guide": True}
    model = aib.create_model("tiny_aib_qt", **options).eval()
    attention = model.attention
    for norm in attention.modules():
        if isinstance(norm, nn.BatchNorm2d):
            for value in (norm.weight, norm.bias, norm.running_mean):
                nn.init.normal_(value)
    f = torch.randn(2, 8, 5, 5)

    def normed(y: torch.Tensor, norm: nn.BatchNorm2d) -> torch.Tensor:
        line = [v[:, None, None] for v in (norm.running_mean, norm.weight, norm.bias)]
        return (y - line[0]) / (1 + norm.eps) ** 0.5 * line[1] + line[2]

    branch = attention.trunk
    convolution, norm, _ = branch.class_maps
    y = torch.einsum("bchw,kc->bkhw", f, convolution.weight[:, :, 0, 0])
    maps = normed(y, norm).clamp(min=0)
    one, norm = branch.to_one
    score = normed(nn.functional.conv2d(maps, one.weight, padding=1), norm)
    found = attention(f)
    torch.testing.assert_close(found.mu, 1 / (1 + torch.exp(-score[:, 0])))
    logits = torch.einsum("bchw,kc->bk", maps, branch.to_logits.weight[:, :, 0, 0]) / 25
    torch.testing.assert_close(found.aux_logits, logits)

    model.save_pretrained(tmp_path)
    x = torch.randn(2, 3, 32, 32)
    again = aib.from_pretrained(tmp_path)(x, deterministic=True)
    out = model(x, deterministic=True)
    torch.testing.assert_close(again.aux_logits, out.aux_logits)
    terms = aib.aib_loss(out, torch.tensor([0, 2]))
    expected = -out.aux_logits.softmax(1)[torch.arange(2), torch.tensor([0, 2])].log().mean()
    torch.testing.assert_close(terms.auxiliary, expected)


def test_wrn_is_guided_by_one_small_layer_more():
    """Its attention is made of class maps as it is."""
    plain, guided = (
        dict(aib.create_model("wrn_aib", width=NARROW, attention_guide=guide).named_parameters())
        for guide in (False, True)
    )
    more = sum(p.numel() for p in guided.values()) - sum(p.numel() for p in plain.values())
    assert more == 10 * 10 and "attention.trunk.to_logits.weight" in guided


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("vgg", {"tap": 1}, "vgg is not one"),
        ("wrn_abn", {"attention_guide": True}, "wrn_abn is not one"),
        (
            "vgg_aib",
            {"attention_guide": True, "image_size": 224},
            "needs a backbone with class maps",
        ),
        ("vgg_aib", {"attention_guide": "yes"}, "true or false, not 'yes'"),
        ("vgg_att3", {"attention_depth": 1}, "vgg_att3 is not one"),
        ("wrn_aib", {"tap": 1}, "only VGG at 32 x 32"),
        ("vgg_aib", {"tap": 3}, "0, 1 or 2, not 3"),
        ("vgg_aib", {"attention_depth": -1}, "0 to 16, not -1"),
        ("vgg_dvib", {"attention_noise": 0.1}, "vgg_dvib is not one"),
        ("vgg_aib", {"attention_noise": 1.5}, "0 to 1, not 1.5"),
    ],
)
def test_an_attention_that_cannot_be_had_is_refused(name, options, sentence):
    with pytest.raises(aib.AibError, match=sentence):
        aib.create_model(name, width=1 / 16, **options)
