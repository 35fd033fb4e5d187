"""Whole models against their layers, written out as functions of the weights."""

import pytest
import torch
import torch.nn.functional as F

import aib
from tests.helpers import Numbers, fill, latent_of


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
    options = {"width": 1 / 32, "profile": profile, **latent_of(name, 4)}
    model = aib.create_model(name, 3, **options).double().eval()
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
