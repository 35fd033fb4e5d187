"""Trained from scratch: the exact KL squeezes the latent, the released one does not.

What that does to the maps is measured, not tested: results/shapes_clutter.json.
"""

import pytest
import torch

from aib.config.options import ModelOptions
from aib.config.settings import Settings
from aib.config.validation import ProfileName
from aib.evaluation.error import evaluate
from aib.training.fit import fit
from aib.training.train import build_model, load_data


@pytest.mark.parametrize(("profile", "least", "most"), [("paper", 0, 0.5), ("released", 0.7, 1.3)])
def test_what_is_left_of_the_bits_after_a_short_training(
    profile: ProfileName, least: float, most: float
) -> None:
    """The weight of the KL is ten times the usual one, so that a hundred steps are enough."""
    settings = Settings(
        data="shapes:clutter=2,count=64", model="tiny_aib_qt",
        options=ModelOptions(width=0.25, profile=profile),
        epochs=10, batch_size=8, lr=0.05, beta=0.1, schedule="cosine", clip=2.0,
        accelerator="cpu", workers=0,
    )  # fmt: skip
    data = load_data(settings, "train")
    torch.manual_seed(0)
    model = build_model(settings, data)
    before = evaluate(model, data, deterministic=True).kl_bits
    after = evaluate(fit(model, data, settings).model, data, deterministic=True).kl_bits
    assert least * before <= after <= most * before
