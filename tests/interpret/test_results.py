"""interpret.json: written, read back, and the older files of results/."""

import json

import pytest

from aib.config.validation import parse_json
from aib.data import Batches
from aib.errors import AibError
from aib.evaluation.intervals import Estimate
from aib.interpret.measured import Stability
from aib.interpret.measures.evaluator import TITLE
from aib.interpret.metrics.perturb import modifications
from aib.interpret.results import Study
from aib.interpret.studies import Plan, study
from aib.interpret.tables import all_tables
from tests.helpers import eval_model, shapes

STABLE = {"accuracy": 50.0, "prediction_consistent": {"value": 10.0}}


@pytest.fixture(scope="module", params=["tiny_aib_qt", "tiny", "tiny_aib_masked"])
def measured(request):
    data = shapes(6)
    model = eval_model(request.param, data)
    return study(
        model,
        Batches(data, 8),
        Plan(
            {"color-8": modifications()["color-8"]},
            subset=3,
            evaluator=eval_model("tiny_evaluator", data),
        ),
        name=request.param,
    )


@pytest.mark.filterwarnings("ignore:.* cannot judge maps")  # it is not trained
def test_a_study_is_read_back_as_it_was_written(measured):
    text = json.dumps(measured.to_dict(), allow_nan=False)
    again = parse_json(Study, json.loads(text), "a study")
    assert again.to_dict() == json.loads(text)
    assert set(again.localisation["centre"].max_box_acc_at) == {0.3, 0.5, 0.7}
    assert again.verdict == measured.verdict and again.encoding == measured.encoding
    assert again.evaluator == measured.evaluator is not None
    if measured.verdict:
        assert again.to_dict()["verdict"]["name"] == measured.verdict.name
        assert again.reliance.masked == (measured.model == "tiny_aib_masked")
    tables = all_tables({"a": again})
    assert tables == all_tables({"a": measured})
    titles = {table.title for table in tables}
    assert {"Which box, which pixels?", TITLE} <= titles
    has_object = measured.model == "tiny_aib_masked"
    of_mask = {"Does closed mean closed?", "What does the mask let through?"}
    assert of_mask & titles == (of_mask if has_object else set())
    assert (measured.mask is not None) == has_object
    if has_object:
        assert again.mask == measured.mask
        assert measured.mask.images == 6 and measured.mask.accuracy == measured.accuracy


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"reliance": "none"}, "reliance"),
        ({"stability": 7}, "stability"),
        ({"stability": {"low-12": {**STABLE, "score": {"high": {}}}}}, "low-12.score has a key"),
        ({"images": "many"}, "images"),
        ({"randomised_layers": [7]}, "randomised_layers"),
    ],
)
def test_a_file_that_holds_another_type_is_an_error(change, said):
    stored = Study("m", 4, 50.0, {}).to_dict()
    assert parse_json(Study, stored, "a study") == Study("m", 4, 50.0, {})
    with pytest.raises(AibError, match=said):
        parse_json(Study, stored | change, "a study")


def test_an_undefined_value_is_null():
    found = Study("m", 4, 50.0, {"low-12": Stability(50.0, Estimate(float("nan")))})
    stored = found.to_dict()["stability"]["low-12"]["prediction_consistent"]
    assert stored == {"value": None, "low": None, "high": None, "undefined": None}
