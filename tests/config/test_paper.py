from aib.config.paper import PAPER_SCORES, paper_scores
from aib.interpret.metrics.perturb import modifications


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
    assert PAPER_SCORES["wrn_abn", "cifar100", "color-4"] == 89.74
    assert PAPER_SCORES["wrn_aib_qt", "cifar100", "low-12"] == 93.17
    assert paper_scores("vgg_aib_qt", "cifar10")["color-4"] == 99.26
    assert paper_scores("vgg_aib_qt", "shapes") == {}
