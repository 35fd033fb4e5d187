"""interpret.json: written, read back, and the older files of results/."""

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

from aib.data import Batches
from aib.errors import AibError
from aib.evaluation.intervals import Estimate
from aib.interpret.metrics.localise import METRICS
from aib.interpret.metrics.perturb import modifications
from aib.interpret.metrics.reliance import Reliance
from aib.interpret.results import Located, Stability, Study
from aib.interpret.studies import Plan, study
from aib.interpret.tables import EVALUATOR, all_tables, thresholded
from aib.system.files import read_json
from tests.helpers import eval_model, shapes

ROOT = Path(__file__).parents[2]


def stored_studies():
    """Every study that is kept, of any schema, by file and run."""
    for path in sorted((ROOT / "results").glob("*.json")):
        found = read_json(path)
        for run in found["runs"] if found.get("kind") == "runs" else ():
            if run["interpret"]:
                yield f"{path.stem} {run['name']}", run["interpret"]


STORED = dict(stored_studies())


@pytest.fixture(scope="module", params=["tiny_aib_qt", "tiny", "tiny_aib_masked"])
def measured(request):
    data = shapes(6)
    origin = {"data": "shapes", "class_names": data.class_names, "split": "test"}
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
        origin=origin | {"threshold_images": "6 images"},
        threshold_images=Batches(data, 8),
    )[0]


@pytest.mark.filterwarnings("ignore:.* cannot judge maps")  # it is not trained
def test_a_study_is_read_back_as_it_was_written(measured):
    text = json.dumps(measured.to_dict(), allow_nan=False)
    again = Study.from_dict(json.loads(text))
    assert again.to_dict() == json.loads(text)
    centre = again.localisation["centre"]
    assert centre.box_acc_held_out is not None and set(centre.max_box_acc_at) == {0.3, 0.5, 0.7}
    assert again.threshold_images == "6 images"
    assert again.verdict == measured.verdict and again.encoding == measured.encoding
    assert again.evaluator == measured.evaluator is not None
    if measured.verdict:
        assert again.to_dict()["verdict"]["name"] == measured.verdict.name
        assert again.reliance.masked == (measured.model == "tiny_aib_masked")
    tables = all_tables({"a": again})
    none = {kind: replace(one, box_acc_held_out=None) for kind, one in again.localisation.items()}
    for found, said in ((again, True), (replace(again, localisation=none), False)):
        assert ("best ones on 6 images" in thresholded({"a": found}).note) == said
    assert tables == all_tables({"a": measured})
    titles = {table.title for table in tables}
    assert {"Which box, which pixels?", EVALUATOR} <= titles
    has_object = measured.model == "tiny_aib_masked"
    of_mask = {"Does closed mean closed?", "What does the mask let through?"}
    assert of_mask & titles == (of_mask if has_object else set())
    assert (measured.mask is not None) == has_object
    if has_object:
        assert again.mask == measured.mask
        assert measured.mask.images == 6 and measured.mask.accuracy == measured.accuracy


@pytest.mark.parametrize("name", STORED)
def test_a_stored_study_keeps_every_number(name):
    stored = STORED[name]
    written = Study.from_dict(stored).to_dict()
    for part in ("stability", "localisation", "faithfulness", "information", "paper"):
        assert written[part] == stored[part], part
    assert written["accuracy"] == stored["accuracy"] and written["schema"] == stored["schema"]
    replaced = stored["reliance"].get("replaced")
    assert written["reliance"].get("replaced") == replaced
    assert isinstance(Study.from_dict(stored).reliance, Reliance) == bool(replaced)
    # Nothing newer than the drops is in these files, and they support the verdict they were given.
    assert written["reliance"]["verdict"] == stored["reliance"]["verdict"]


@pytest.mark.parametrize("part", ["stability", "localisation", "reliance", "notes", "images"])
def test_a_file_that_lacks_a_part_or_holds_another_type_is_refused(part):
    stored = next(iter(STORED.values()))
    with pytest.raises(AibError, match=part):
        Study.from_dict({k: v for k, v in stored.items() if k != part})
    with pytest.raises(AibError, match=f"wrong type|{part} must be"):
        Study.from_dict(stored | {part: 7 if part != "images" else "many"})


@pytest.mark.parametrize("part", [{"reliance": {}}, {"classes": [{}]}, {"classes": [7]}])
def test_a_part_that_is_damaged_is_refused(part):
    with pytest.raises(AibError, match="the results of a study"):
        Study.from_dict(next(iter(STORED.values())) | part)


def test_every_metric_of_localisation_is_stored():
    """A result without a field would be left out of interpret.json unnoticed."""
    assert {*METRICS} <= {one.name for one in fields(Located)}


def test_an_undefined_value_is_none():
    values = {"accuracy": 50.0, "prediction_consistent": 10.0, "centred_mean": float("nan")}
    found = Stability.from_flat(values)
    assert found.centred_mean == Estimate() and found.to_dict()["centred_mean"] is None
