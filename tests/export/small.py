"""Small models with nothing left at its initial value, and what a file of them must give."""

import numpy as np
import torch
from torch import nn

import aib
from aib.masked import information_bits

NAMES = ("circle", "square", "star")
POLICY = aib.Preprocessing(
    image_size=32,
    resize="crop",
    mean=(0.4, 0.5, 0.6),
    std=(0.2, 0.25, 0.3),
    class_names=NAMES,
)


def make(name, image_size=32, **options):
    """A small model of the family whose running statistics and anchors are not the initial ones."""
    model = aib.create_model(name, 3, image_size, width=1 / 16, latent_dim=8, **options)
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.normal_(layer.running_mean, std=0.2)
            nn.init.uniform_(layer.running_var, 0.5, 2)
    quantizer = getattr(model, "quantizer", None)
    if quantizer is not None:
        anchors = quantizer.anchors.data
        anchors.copy_((anchors + 0.01 * torch.randn_like(anchors)).flip(0))  # not in order
    size = 64 if image_size == 224 else image_size
    model.preprocessing = aib.Preprocessing(size, "crop", POLICY.mean, POLICY.std, NAMES)
    return model.eval()


def by_hand(model, pixels):
    """What the file must give, from the model and from the formula of the normalisation."""
    mean, std = (np.array(v, np.float32).reshape(1, 3, 1, 1) for v in (POLICY.mean, POLICY.std))
    x = torch.from_numpy((pixels - mean) / std)
    with torch.no_grad():
        out = model(x, deterministic=True)
    found = {"logits": out.logits}
    if out.mask is not None and out.attention is not None:
        found |= {"map": out.mask[0], "bits": information_bits(x, out.mask[0], model.noise_std)}
        found["attention"] = out.attention.a_q[0]
    elif out.attention is not None:
        found["map"], _ = model.mean_map(out.attention)
    if out.attention is not None and out.attention.sigma is not None:
        found["sigma"] = out.attention.sigma
    return {name: value.numpy() for name, value in found.items()}


def random_pixels(batch, size=32):
    return np.random.default_rng(batch).random((batch, 3, size, size), np.float32)
