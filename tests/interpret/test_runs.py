"""Studies of runs."""

import pytest
import torch

from aib.data import Batches
from aib.interpret.measure import Context, run_measures
from aib.interpret.measures.swaps import SwapMeasure
from aib.interpret.runs import feeds_for, study_run
from aib.interpret.studies import Plan
from aib.runs.run import open_run
from aib.system.progress import silent
from tests.helpers import eval_model, make_run, shapes


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # a CPU without bf16
def test_a_study_in_half_precision_says_so_and_measures_nearly_the_same(tmp_path):
    run = open_run(make_run(tmp_path / "run", "tiny_aib_masked"), "cpu")
    [feed] = feeds_for([run], "shapes:count=4")
    full, half = (
        study_run(run, feed, Plan({}, subset=2, precision=precision), "shapes")
        for precision in ("fp32", "bf16")
    )
    assert "forward passes in bf16" in half.notes and "forward passes in bf16" not in full.notes
    assert full.own_localisation.auroc != half.own_localisation.auroc
    assert full.own_localisation.auroc == pytest.approx(half.own_localisation.auroc, abs=0.02)
    assert set(half.faithfulness) == set(full.faithfulness)
    assert half.randomised_layers == full.randomised_layers  # always in full precision


def test_a_quantised_mask_gets_its_own_map_back_as_it_was_applied():
    """Otherwise swaps would also measure what quantising the map changes."""
    model = eval_model("tiny_aib_masked", quantise_map=True, num_anchors=2)
    context = Context(model, frozenset({"takes_map"}))
    measure = SwapMeasure(context)
    run_measures(context, [measure], Batches(shapes(4), 4), silent)
    applied = measure.swapping.stored()["maps"]
    x = model.preprocessing.normalise(shapes(4).images)
    with torch.no_grad():
        own = model(x, deterministic=True)
        again = model(x, deterministic=True, attention_map=applied)
    assert torch.equal(own.mask, again.mask) and own.attention.mu.unique().numel() > 2
