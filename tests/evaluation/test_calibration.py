"""The temperature and the threshold that are fitted on held-out images."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import aib
from aib.config.validation import parse_json
from aib.evaluation.calibration import fit_calibration, fit_temperature, unsure_below
from aib.models.types import Calibration
from tests.helpers import SMALL, image_set, small_model


@pytest.mark.parametrize("true", [0.5, 1.0, 3.0])
def test_the_temperature_that_made_the_labels_is_found(true: float) -> None:
    torch.manual_seed(0)
    logits = 4 * torch.randn(20_000, 5, dtype=torch.float64)
    labels = torch.multinomial((logits / true).softmax(-1), 1).flatten()
    assert fit_temperature(logits, labels) == pytest.approx(true, rel=0.05)
    probabilities = (logits / true).softmax(-1)
    assert fit_temperature(logits, probabilities) == pytest.approx(true, rel=1e-4)


def test_no_temperature_of_a_grid_has_less_nll() -> None:
    torch.manual_seed(1)
    logits, labels = torch.randn(50, 4, dtype=torch.float64), torch.arange(50) % 4
    best = F.cross_entropy(logits / fit_temperature(logits, labels), labels)
    grid = torch.logspace(-1.3, 1.3, 200, dtype=torch.float64)
    assert all(best <= F.cross_entropy(logits / t, labels) + 1e-9 for t in grid)


@pytest.mark.parametrize(
    ("right", "expected"),
    [
        ([0, 1, 0, 0, 1, 1], 0.5),  # three of the four below it are wrong
        ([0, 1, 1, 0, 1, 1], 0.2),
        ([1, 1, 1, 1, 1, 1], 0.0),
        ([1, 0, 1, 1, 1, 1], 0.0),
        ([0, 0, 0, 0, 0, 0], 1.0),
        ([0.1, 0.6, 0.3, 0.7, 1, 1], 0.4),  # how probable it is
    ],
)
def test_the_threshold_separates_wrong_decisions_from_right_ones(right, expected):
    confidence = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    shuffled = torch.tensor([3, 0, 5, 1, 4, 2])
    found = unsure_below(confidence[shuffled], torch.tensor(right)[shuffled])
    assert found == pytest.approx(expected)


def test_it_is_fitted_after_training_and_stored_with_the_model(tmp_path: Path) -> None:
    data = {"data": image_set(), "validation": image_set(12)}
    plain = aib.fit(small_model(num_classes=4), image_set(), SMALL)
    fitted = aib.fit(small_model(num_classes=4), settings=SMALL, run=tmp_path / "run", **data)
    assert plain.model.calibration is None
    logits: list[tuple[torch.Tensor, torch.Tensor]] = []
    again = aib.evaluation.error.evaluate(fitted.model, data["validation"], logits=logits)
    assert fitted.validation is not None and again.nll == fitted.validation.nll
    values, labels = map(torch.cat, zip(*logits, strict=True))
    assert fitted.model.calibration == fit_calibration(values, labels)
    assert aib.from_pretrained(tmp_path / "run").calibration == fitted.model.calibration


@pytest.mark.parametrize("values", [{"temperature": 0, "unsure_below": 0.5}, {"unsure_below": 2}])
def test_a_wrong_calibration_in_a_file_is_an_error(values: dict) -> None:
    with pytest.raises(aib.AibError, match=r"config\.json"):
        parse_json(Calibration, values, Path("config.json"))
