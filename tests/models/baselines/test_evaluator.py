"""Evaluators: random masks, what they see in training and evaluation, training by preset."""

import json

import pytest
import torch

import aib
from aib.cli import main
from aib.config.settings import Settings
from aib.models.baselines.evaluator import Evaluator, random_masks
from aib.models.registry import create_model
from aib.training.train import evaluator_settings


def masks(count, side=32, seed=0):
    torch.manual_seed(seed)
    return random_masks(count, (side, side))


def test_the_area_of_random_masks_is_uniform():
    drawn = masks(3000, 16)
    assert set(drawn.unique().tolist()) == {0.0, 1.0}
    area = drawn.mean((1, 2)).double().sort().values
    assert area[0] >= 1 / 256  # never an empty mask
    expected = (torch.arange(3000) + 0.5) / 3000
    assert float((area - expected).abs().max()) < 0.05  # Kolmogorov's distance


def test_an_evaluator_sees_random_masks_in_training_and_whole_images_in_evaluation():
    torch.manual_seed(0)
    model, x = create_model("tiny_evaluator", width=0.1), torch.randn(6, 3, 32, 32)
    area = model(x).mask.mean((0, 2, 3))
    assert len(area.unique()) > 3 and area.max() <= 1
    model.eval()
    out = model(x, deterministic=True)
    assert (out.mask == 1).all()
    _, plain = model.head(model.body(x), (1, 1), True, None)
    torch.testing.assert_close(out.sample_logits, plain)


@pytest.mark.parametrize("training", [True, False])
def test_an_evaluator_sees_noise_in_place_of_closed_pixels(training):
    model, seen = create_model("tiny_evaluator", width=0.1, noise_std=0.5).train(training), []
    model.body.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    mask = masks(40)
    model(torch.full((40, 3, 32, 32), 9.0), (1, 1), mask=mask)
    closed = seen[0][(mask == 0)[:, None].expand_as(seen[0])]
    assert closed.std() == pytest.approx(0.5, rel=0.05) and abs(closed.mean()) < 0.05
    assert (seen[0][(mask == 1)[:, None].expand_as(seen[0])] == 9).all()


def test_an_evaluator_keeps_the_noise_and_drops_the_options_of_the_map():
    before = Settings(model="vgg_aib_masked").updated(area=0.5, noise_std=0.3)
    after = evaluator_settings(before)
    assert after == before.updated(model="vgg_evaluator", area=0.25)
    assert evaluator_settings(after) == after
    assert evaluator_settings(Settings(model="wrn").updated(dropout=0.0)).options.dropout == 0.0
    for propose in ("separate", "twice"):  # the layers of the model that it judges
        before = Settings(model="tiny_aib_masked").updated(propose=propose, width=0.25)
        judged, judge = (
            create_model(s.model, options=s.options) for s in (before, evaluator_settings(before))
        )
        shapes = [[p.shape for p in part.parameters()] for part in (judged.body, judge.body)]
        assert shapes[0] == shapes[1]


def test_an_evaluator_is_trained_from_a_preset_and_is_a_run_like_any_other(tmp_path, capsys):
    folder = tmp_path / "evaluator"
    words = ["train", "shapes_tiny", "--evaluator", "--data", "shapes:count=40", "--epochs", "1"]
    words += ["--batch-size", "16", "--width", "0.1", "--out", str(folder)]
    assert main(words) == 0
    config = json.loads((folder / "config.json").read_text())
    assert config["model"]["name"] == config["settings"]["model"] == "tiny_evaluator"
    assert isinstance(aib.from_pretrained(folder), Evaluator)
    capsys.readouterr()
    assert main(["eval", str(folder), "--samples", "1x1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
