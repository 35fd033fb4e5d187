import pytest

from aib.config.paper import PAPER_SCORES
from aib.data import Batches
from aib.interpret.metrics.perturb import modifications
from aib.interpret.studies import Plan, study
from tests.helpers import eval_model, shapes


def test_every_cell_of_the_table_is_there():
    models = {model for model, _, _ in PAPER_SCORES}
    assert models == {"vgg_att3", "vgg_aib", "vgg_aib_qt", "wrn_abn", "wrn_aib", "wrn_aib_qt"}
    assert set(PAPER_SCORES) == {
        (model, dataset, modification)
        for model in models
        for dataset in ("cifar10", "cifar100")
        for modification in modifications()
    }
    assert all(0 < score < 100 for score in PAPER_SCORES.values())


def test_cells_stand_where_the_paper_prints_them():
    assert PAPER_SCORES["vgg_att3", "cifar10", "color-16"] == 7.12
    assert PAPER_SCORES["vgg_att3", "cifar100", "high-4"] == 3.69
    assert PAPER_SCORES["vgg_aib_qt", "cifar10", "svhn-16"] == 78.82
    assert PAPER_SCORES["vgg_aib_qt", "cifar10", "low-12"] == 73.52
    assert PAPER_SCORES["wrn_abn", "cifar100", "color-4"] == 89.74
    assert PAPER_SCORES["wrn_aib_qt", "cifar100", "low-12"] == 93.17
    assert ("vgg_dvib", "cifar10", "color-4") not in PAPER_SCORES


@pytest.mark.parametrize(
    ("papers_form", "expected"), [(True, {"color-4": 99.26}), (False, {}), (None, {})]
)
def test_the_papers_scores_stand_beside_models_of_its_form(papers_form, expected):
    data = shapes(4)
    origin = {"data": "cifar10"} | ({} if papers_form is None else {"papers_form": papers_form})
    plan = Plan({"color-4": modifications()["color-4"]})
    model = eval_model(data=data)
    found = study(model, Batches(data, 8), plan, name="vgg_aib_qt", origin=origin, expensive=False)[
        0
    ]
    assert found.paper == expected
