"""explain(): what was decided and where the model looked, at image size."""

from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F

import aib
from tests.helpers import images

B, C = 3, 4
NO_MAP = ["vgg", "vgg_gap", "vgg_dvib", "wrn"]


def make(name="tiny_aib_qt", **options):
    return aib.create_model(name, num_classes=C, width=1 / 16, **options)


@pytest.mark.parametrize("name", [n for n in aib.list_models() if n not in NO_MAP])
def test_every_attention_model_explains_at_image_size(name):
    expl = make(name).explain(images(B, 32, 40))
    assert expl.prediction.shape == expl.probability.shape == (B,)
    assert expl.attention.shape == (B, 32, 40) and not expl.attention.requires_grad
    assert (expl.std is None) == ("aib" not in name)
    assert (expl.levels is None) == (not name.endswith("_qt"))
    assert (expl.probability > 1 / C).all() and (expl.probability <= 1).all()


def test_a_model_without_attention_says_so():
    with pytest.raises(aib.AibError, match="no attention map of its own"):
        make("vgg_dvib").explain(images(B))


def test_the_explanation_is_that_of_the_deterministic_pass():
    model, x = make("tiny_aib").eval(), images(B)
    expl, out = model.explain(x, deterministic=True), model(x, deterministic=True)
    assert torch.equal(expl.prediction, out.logits.argmax(-1))
    probability = out.sample_logits[0, 0].softmax(-1).max(-1).values
    torch.testing.assert_close(expl.probability, probability)
    enlarged = F.interpolate(out.attention.mu[:, None], size=(32, 32), mode="bilinear")
    torch.testing.assert_close(expl.attention, enlarged[:, 0])


def test_a_quantised_map_takes_only_the_anchors_levels():
    model = make(num_anchors=5)
    model.quantizer.anchors.data = torch.tensor([0.9, 0.3, 0.6, 0.5, 0.4])
    x = images(B)
    expl = model.explain(x)
    mu = model.eval()(x, deterministic=True).attention.mu
    values = torch.tensor([0.3, 0.4, 0.5, 0.6, 0.9])
    nearest = (mu[..., None] - values).abs().argmin(-1)  # levels, in rising order
    assert expl.levels.dtype == torch.int64
    assert torch.equal(expl.levels[:, ::4, ::4], nearest)
    assert torch.equal(expl.levels[:, 3::4, 3::4], nearest)


def test_a_mask_closed_everywhere_is_told():
    model = make("tiny_aib_masked")
    for bias, closed in ((-100.0, True), (100.0, False)):
        model.propose.trunk.to_score.bias.data.fill_(bias)
        expl = model.explain(images(B))
        assert expl.closed.tolist() == [closed] * B
        assert ("nothing of the image was seen" in expl.certainty(1)) == closed
    assert not make().explain(images(B)).closed.any()


def test_the_mode_of_every_layer_is_restored_also_after_an_error():
    model = make().train()
    model.stem.eval()  # frozen statistics, say
    for x, outcome in ((images(B), nullcontext()), (torch.zeros(1), pytest.raises(aib.AibError))):
        with outcome:
            model.explain(x)
        assert model.training and model.tail.training
        assert not any(layer.training for layer in model.stem.modules())


def test_a_batch_is_iterated_image_by_image_with_the_names_of_the_classes():
    names = ("ant", "bee", "cat", "dog")
    expl = make(preprocessing=aib.Preprocessing(class_names=names)).explain(images(B))
    assert expl.names() == [names[i] for i in expl.prediction]
    assert [int(one.prediction) for one in expl] == expl.prediction.tolist()


def test_a_decision_is_unsure_above_half_of_the_entropy_of_a_guess():
    """By hand: k equally likely classes of 16 have log2 k bits, and a guess has 4."""
    rows = torch.zeros(3, 16)
    for i, k in enumerate((1, 3, 5)):
        rows[i, :k] = 1 / k
    found = aib.Explanation(probabilities=rows, size=(1, 1))
    assert found.max_entropy_bits == 4
    assert found.unsure.tolist() == [False, False, True]
    assert found.certainty(1) == "" and found.certainty(2).startswith("unsure")
