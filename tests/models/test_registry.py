"""The models by name: listing, image sizes, options."""

import pytest
import torch
import torch.nn.functional as F

import aib
from aib.models.registry import family
from tests.helpers import images

NARROW = 1 / 32
TWELVE = (
    "vgg vgg_gap vgg_pan vgg_dvib vgg_att2 vgg_att3 vgg_aib vgg_aib_qt "
    "wrn wrn_abn wrn_aib wrn_aib_qt"
).split()
AT_224 = ["vgg", "vgg_dvib", "vgg_aib", "vgg_aib_qt", "wrn", "wrn_aib", "wrn_aib_qt"]
WITH_ATTENTION = [n for n in TWELVE if n.endswith(("pan", "att2", "att3", "abn", "aib", "qt"))]


def test_models_are_listed_by_wildcard_size_and_exclusion():
    assert aib.list_models() == TWELVE
    assert aib.list_models("wrn_a*") == ["wrn_abn", "wrn_aib", "wrn_aib_qt", "wrn_aib_masked"]
    ours = ["wrn_aib_masked", "wrn_evaluator"]
    assert aib.list_models("wrn*") == [*(n for n in TWELVE if "wrn" in n), *ours]
    assert aib.list_models("wrn*", exclude="*_*") == ["wrn"]
    assert aib.list_models(image_size=224) == AT_224
    assert aib.list_models("*_aib_masked", image_size=224) == ["vgg_aib_masked", "wrn_aib_masked"]
    assert aib.list_models("vgg_aib") == ["vgg_aib"]
    assert aib.list_models("resnet*") == []


@pytest.mark.parametrize("name", TWELVE)
def test_other_image_sizes_pass_through_the_32_family_and_every_map_is_in_the_same_fields(name):
    model = aib.create_model(name, num_classes=3, width=NARROW, profile="released").eval()
    out = model(images(2, 40, 48), samples=(2, 1))
    assert out.logits.shape == (2, 3) and model.profile == "released"
    attention = out.attention
    assert (attention is not None) == (name in WITH_ATTENTION)
    if attention is not None:
        assert attention.mu.shape == attention.a.shape[1:] == (2, 20, 24)
        assert attention.a.shape == attention.a_q.shape and attention.maps[0] is attention.mu
        assert (attention.sigma is None) == ("aib" not in name)
        assert (attention.mu >= 0).all() and (attention.mu <= 1).all()


@pytest.mark.parametrize(
    ("name", "size"),
    [("vgg_att3", 32), ("wrn_abn", 32), ("tiny_aib", 32), ("vgg_aib", 224), ("wrn_aib", 224)],
)
def test_images_too_small_for_the_strides_are_refused_and_the_smallest_is_not(name, size):
    model = aib.create_model(name, num_classes=3, image_size=size, width=NARROW).train()
    smallest = model.min_size
    assert model(images(2, smallest)).logits.shape == (2, 3)
    with pytest.raises(aib.AibError, match=rf"{smallest - 1} x {smallest} are too small"):
        model(images(2, smallest - 1, smallest))


def test_width_scales_the_backbone_and_not_the_latent():
    model = aib.create_model("vgg_aib", width=0.5)
    assert (model.head.latent_dim, model.attention.trunk.in_channels) == (256, 128)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("vgg_aib_qt", {"num_classes": 1}, "num_classes .* at least 2, not 1"),
        ("vgg_aib_qt", {"width": float("nan")}, "width .* nan"),
        ("vgg_aib_qt", {"profile": "ours"}, "profile .* not 'ours'"),
        ("vgg_aib_qt", {"image_size": 64}, "image_size 32 or 224, not 64"),
        ("vgg_aib_qt", {"widht": 0.5}, "no model option 'widht'; did you mean width"),
        ("vgg_gap", {"image_size": 224}, "vgg_gap exists for image_size 32, not 224"),
        ("vgg_aib", {"area": 0.5}, "vgg_aib has no mask: area changes nothing"),
        ("wrn_abn", {"modulation": "residual"}, "no aib attention: modulation changes nothing"),
        ("tiny_aib_masked", {"num_anchors": 8}, "no anchors: num_anchors changes nothing"),
        ("tiny", {"latent_dim": 7}, "tiny has no latent: latent_dim changes nothing"),
        ("wrn", {"dropout": 0.1, "image_size": 224}, "wrn has no dropout: dropout changes nothing"),
        ("wrn", {"pool_size": 1, "image_size": 224}, "wrn at 224 x 224 has no pool_size"),
        ("tiny_aib_masked", {"propose": "copy"}, "no stages to copy"),
        ("vgg_aib_masked", {"map_stride": 16, "image_size": 224}, "map_stride is for"),
    ],
)
def test_impossible_options_are_an_error(name, options, message):
    with pytest.raises(aib.AibError, match=message):
        aib.create_model(name, **{"width": 1 / 16, **options})


def test_pool_size_is_the_grid_that_the_head_reads():
    x = torch.rand(1, 3, 64, 64)
    for given, side in ((None, 3), (1, 1), (2, 2)):
        model = aib.create_model("vgg", 5, 224, width=1 / 16, pool_size=given).eval()
        f = model.stem(x)  # [1,32,4,4]
        pooled = F.adaptive_avg_pool2d(f, side).flatten(1)
        logits = F.linear(pooled, model.head.weight, model.head.bias)
        torch.testing.assert_close(model(x).sample_logits[0, 0], logits)


@pytest.mark.parametrize(
    ("name", "size", "chosen"),
    [("vgg", 32, 32), ("vgg", 111, 32), ("vgg", 112, 224), ("tiny", 224, 32), ("lite0", 64, 224)],
)
def test_images_of_any_size_choose_among_the_sizes_of_a_model(name, size, chosen):
    assert family(name, size) == chosen
