"""The tables between markers in README and docs come from results/."""

import json

import pytest

import aib
from aib.config.paper import PAPER_ERRORS, paper_error
from aib.config.presets import get_preset
from aib.figures.table import NOTHING
from tests.tools.results.stored import (
    RESULTS,
    ROOT,
    evaluation,
    pages_of_runs,
    stored,
    write_finished_run,
)
from tools.results.__main__ import documents, main
from tools.results.read import read_results
from tools.results.tables import fill, make_table

PAGE = "# Title\n\n<!-- table: errors -->\nold\n<!-- end -->\n\nText.\n"


def test_all_pages_and_tables_are_current():
    made = documents(ROOT)
    old = [path for path, text in made.items() if path.read_text(encoding="utf-8") != text]
    assert not old, "run: python -m tools.results docs"
    stored = set((ROOT / "docs" / "results").glob("*.md"))
    assert stored == {path for path in made if path.parent.name == "results"}


def test_new_results_appear_without_editing(tmp_path):
    """A preset's recipe with another model and two seeds. A recipe of no preset is not shown."""
    fast = {**get_preset("cifar10_fast").recipe, "model": "vgg_pan"}
    runs = [
        write_finished_run(tmp_path / f"s{seed}", 5.0 + seed, **fast | {"seed": seed})
        for seed in (0, 1)
    ]
    runs.append(write_finished_run(tmp_path / "short", 9.0, **fast | {"epochs": 3}))
    pages_of_runs(tmp_path, runs)
    (tmp_path / "README.md").write_text(PAGE)
    (tmp_path / "stored").rename(tmp_path / "results")
    main(["docs", str(tmp_path)])
    text = (tmp_path / "README.md").read_text()
    assert "| CIFAR-10 | `vgg_pan` | 5.50 ± 0.71 | 6.29 | 2 |" in text
    assert "9.00" not in text and "old" not in text
    assert text.startswith("# Title\n\n<!-- table: errors -->\n| data set |")
    assert text.endswith("|\n<!-- end -->\n\nText.\n")
    assert "vgg_pan" in (tmp_path / "docs" / "results" / "cifar10.md").read_text()


def test_a_preset_of_the_run_s_own_model_goes_first():
    """cub200_full with --model vgg_aib_masked is the same recipe."""
    runs = read_results(RESULTS).runs["cub200_full.json"].runs
    masked = [run for run in runs if run.model == "vgg_aib_masked" and run.preset]
    assert {run.preset for run in masked} == {"cub200_full_masked"}
    assert "cub200_full" in {run.preset for run in runs if run.model == "vgg"}


def test_runs_of_a_file_have_intervals_and_no_evaluators(tmp_path):
    """Where there are several seeds, their standard deviation."""
    runs = [("vgg", 0, 5.0), ("vgg_evaluator", 0, 9.0), ("vgg_gap", 0, 6.0), ("vgg_gap", 1, 7.0)]
    pages_of_runs(
        tmp_path,
        [write_finished_run(tmp_path / f"{m}_{s}", e, model=m, seed=s) for m, s, e in runs],
    )
    table = make_table(read_results(tmp_path / "stored"), "runs", "some")
    found = [dict(zip(table.head, row, strict=True)) for row in table.rows]
    assert [(row["model"], row["seeds"], row["error %"]) for row in found] == [
        ("`vgg`", "1", "5.00 (4.00 to 6.00)"),
        ("`vgg_gap`", "2", "6.50 ± 0.71"),
    ]


def test_masks_of_tuning_runs_are_of_held_out_images(tmp_path):
    """Never the test error beside a study of held-out images."""
    content = stored("shapes_masked.json")
    [run] = content["runs"]
    runs = []
    for seed, rounded, weight in ((0, 5.0, 0.0), (1, 7.0, 0.0), (0, 1.0, 3.0)):
        one = json.loads(json.dumps(run)) | {"held_out": evaluation(8.0 + seed, "shapes", "val")}
        recipe = run["recipe"] | {"seed": seed, "holdout": 0.1}
        one |= {"seed": seed, "recipe": recipe | ({"lambda_area": weight} if weight else {})}
        one["interpret"]["split"] = "val"
        one["interpret"]["mask"]["rounded"] = rounded
        runs.append(one)
    (tmp_path / "some.json").write_text(json.dumps(content | {"runs": runs}))
    table = make_table(read_results(tmp_path), "masks", "some")
    plain, penalised = (dict(zip(table.head, row, strict=True)) for row in table.rows)
    assert (plain["images"], plain["seeds"], plain["error %"]) == ("val", "2", "8.50 ± 0.71")
    assert plain["rounding costs"] == "6.0 ± 1.4" and plain["m = 0 %"] == "51.9 ± 0.0"
    assert penalised["options"] == "lambda area 3.0" and penalised["rounding costs"] == "1.0"
    own = make_table(read_results(RESULTS), "masks", "shapes_masked")  # a study of test images
    assert own.rows[0][:2] == ("1", "test") and own.rows[0][2] == "4.60"


def test_stability_spans_modifications_and_seeds(tmp_path):
    content = stored("shapes_clutter.json")
    runs = [run for run in content["runs"] if run["name"].startswith("exact")]
    runs.reverse()  # the first is now neither the lowest nor the highest
    content["runs"] = runs
    (tmp_path / "some.json").write_text(json.dumps(content))
    table = make_table(read_results(tmp_path), "stability", "some")
    [row] = (dict(zip(table.head, row, strict=True)) for row in table.rows)
    scores = [each["score_0.9"] for run in runs for each in run["interpret"]["stability"].values()]
    assert row["seeds"] == "3"
    assert row["score %"] == f"{min(scores):.0f} to {max(scores):.0f}"


def test_localisation_has_a_row_for_each_kind_of_map_and_controls_once(tmp_path):
    content = stored("shapes_masked.json")
    [run] = content["runs"]
    runs = []
    for seed, area, pointing in ((0, None, 0.5), (1, None, 0.75), (0, 0.5, 0.25)):
        one = json.loads(json.dumps(run)) | {"seed": seed}
        one["recipe"] |= {"seed": seed} | ({"area": area} if area else {})
        own = one["interpret"]["localisation"]["own"]
        own["pointing"] = pointing
        if seed or area:
            own |= {f"max_box_acc_any{end}": 0.5 for end in ("", "_low", "_high")}
        runs.append(one)
    (tmp_path / "some.json").write_text(json.dumps(content | {"runs": runs}))
    table = make_table(read_results(tmp_path), "located", "some")
    found = [dict(zip(table.head, row, strict=True)) for row in table.rows]
    own = [row for row in found if row["map"] == "own map"]
    assert [row["pointing %"] for row in own] == ["62.5 ± 17.7", "25.0"]
    assert [row["options"] for row in own] == ["", "area 0.5"]
    assert [row["any component %"] for row in own] == [NOTHING, "50.0"]  # only one of two has it
    assert [row["map"].split()[0] for row in found[-2:]] == ["centre", "random"]
    assert [row["model"] for row in found[-2:]] == ["", ""] and len(found) == 2 * 2 + 2
    iou = run["interpret"]["localisation"]["gradcam"]["mask_iou"]
    assert found[1]["mask IoU"] == f"{iou:.3f} ± 0.000"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("walks", "no table is called 'walks'"),
        ("maps nothing", "no file of runs is called"),
    ],
)
def test_an_unknown_table_or_file_is_an_error(name, message):
    results = read_results(RESULTS)
    with pytest.raises(aib.AibError, match=message):
        fill(f"<!-- table: {name} -->\n<!-- end -->", results, ROOT / "README.md")


def test_the_paper_s_errors_are_as_printed():
    assert len(PAPER_ERRORS) == 12 * 6 - 4  # WRN and WRN-ABN have gaps
    rows = {row[0]: row[1:] for row in make_table(None, "paper_errors").rows}
    assert rows["`vgg`"][0] == "7.77" and rows["`wrn_aib_qt`"][-1] == "50.49"
    assert rows["`wrn`"] == ("4.00", "19.25", "26.50", "-", "-", "-")
    assert paper_error("wrn_aib_qt", "cub200:crop") == 15.50
    assert paper_error("wrn", "svhn") is None and paper_error("tiny", "shapes") is None
