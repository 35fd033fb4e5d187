"""The baselines: pay attention, progressive attention, attention branch network."""

import torch

import aib
from tests.helpers import images

NARROW = 1 / 32


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


def test_progressive_attention_filters_twice_and_sums_by_the_last_map():
    model, x = aib.create_model("vgg_pan", width=NARROW).eval(), images()
    out, f = model(x), x
    for i, stage in enumerate(model.stages):
        f = stage(f)
        first, _, last = model.contexts[i].score  # 3 x 3, then 1 x 1
        score = last(first(f).clamp_min(0)).exp()
        a = score / (1 + score) if i < 2 else score / score.sum((2, 3), keepdim=True)
        torch.testing.assert_close(out.attention.maps[i], a[:, 0])
        f = f * a
    assert first.kernel_size == (3, 3)
    torch.testing.assert_close(out.sample_logits[0, 0], model.classify(f.sum((2, 3))))


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


def test_average_pooling_has_eight_by_eight_positions():
    model, seen = aib.create_model("vgg_gap", width=NARROW).eval(), []
    model.tail[-1].register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    out = model(images())
    assert seen[0].shape[2:] == (8, 8)
    logits = seen[0].mean((2, 3)) @ model.head.weight.T + model.head.bias
    torch.testing.assert_close(out.sample_logits[0, 0], logits)
