"""Tables of a sweep."""

from dataclasses import replace

from aib.sweep.panels import error_bar_note
from aib.sweep.results import collect_results, read_results
from aib.sweep.tables import sweep_tables
from tests.helpers import sweep_plan, write_measurement

OTHER_IMAGES = "A run's seed also draws its training shapes"


def test_tables_mark_the_presets_own_value(swept):
    beta, size = sweep_tables(read_results(swept))
    assert beta.head == ("beta", "n", "accuracy %", "AUROC", "bits", "anchors in use")
    assert [row[:3] for row in beta.rows] == [
        ("0.001", "3", "91.00 ± 1.00"),
        ("0.01 *", "3", "85.00 ± 8.66"),
        ("0.1", "1", "50.00"),
    ]
    assert [row[0] for row in size.rows] == ["8", "32 *"]
    assert "On 400 test images of shapes:count=16" in beta.note


def test_a_product_has_one_table(tmp_path):
    write_measurement(tmp_path, "K=8,beta=0.1,seed=3", 11)
    plan = sweep_plan("beta=0.1,0.01", "K=8,32", product=True)
    (table,) = sweep_tables(collect_results(plan, tmp_path, {}))
    assert ("K=8", "0.1", "1", "11.00") in [row[:4] for row in table.rows]


def test_a_note_says_that_seeds_also_choose_the_training_shapes(swept):
    results = read_results(swept)
    assert all(OTHER_IMAGES in table.note for table in sweep_tables(results))
    assert OTHER_IMAGES in error_bar_note(results)
    for change in ({"seeds": (3,)}, {"base": replace(results.base, data="cifar10")}):
        tables = sweep_tables(replace(results, **change))
        assert not any(OTHER_IMAGES in table.note for table in tables)
