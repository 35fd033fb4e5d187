"""Studies of runs."""

import pytest
import torch

from aib.errors import AibError
from aib.interpret.runs import feeds_for, study_run
from aib.interpret.studies import Plan
from aib.runs.run import open_run
from tests.helpers import make_run


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # a CPU without bf16
def test_a_study_in_half_precision_says_so_and_measures_nearly_the_same(tmp_path):
    run = open_run(make_run(tmp_path / "run", "tiny_aib_masked"), "cpu")
    [feed] = feeds_for([run], "shapes:count=4")
    full, half = (
        study_run(run, feed, Plan({}, subset=2, precision=precision), "shapes")
        for precision in ("fp32", "bf16")
    )
    assert "forward passes in bf16" in half.notes and "forward passes in bf16" not in full.notes
    located = [one.localisation_own_all_images["auroc"] for one in (full, half)]
    assert located[0] != located[1]
    assert located[0] == pytest.approx(located[1], abs=0.02)
    assert set(half.faithfulness) == set(full.faithfulness)
    assert half.randomised_layers == full.randomised_layers  # always in full precision


def test_runs_are_compared_on_the_same_images(tmp_path):
    runs = [open_run(make_run(tmp_path / name, name), "cpu") for name in ("tiny", "tiny_aib")]
    first, second = feeds_for(runs, "shapes:count=40", images=6, seed=1)
    assert torch.equal(first.indices, second.indices) and len(first.indices) == 6
    with pytest.raises(AibError, match="at least 2"):
        feeds_for(runs, "shapes:count=40", images=1)
