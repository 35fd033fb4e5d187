"""Older studies say what their post-hoc maps attribute."""

import json

from aib.interpret.study import SCHEMA
from tests.tools.results.stored import RESULTS, ROOT, pages_of, stored
from tools.results.mark import NOTE, mark


def test_studies_that_attributed_log_probabilities_are_marked_and_the_page_says_so(tmp_path):
    content = stored("shapes_vgg.json")
    for run in content["runs"]:
        run["interpret"].pop("posthoc_note", None)
    before = json.dumps(content)
    assert mark(content) == 4  # not the run of the released profile, whose logits are raw
    assert f"{NOTE} (deeper, later, ours, residual).\n" in pages_of(tmp_path, content)["shapes.md"]
    for run in content["runs"]:
        note = run["interpret"].pop("posthoc_note", None)
        assert (note is None) == (run["interpret"]["profile"] == "released")
    assert json.dumps(content) == before  # no metric was changed
    for run in content["runs"]:
        run["interpret"]["schema"] = SCHEMA
    assert mark(content) == 0  # measured as today


def test_every_stored_study_that_needs_the_note_has_it():
    packaged = (ROOT / "aib" / "pretrained_models").glob("*/interpret.json")
    for path in [*RESULTS.glob("*.json"), *packaged]:
        found = json.loads(path.read_text())
        before = json.dumps(found)
        mark(found)
        assert json.dumps(found) == before, f"python -m tools.results.mark {path}"
