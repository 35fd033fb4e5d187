"""The pages of docs/results/ show the results of runs, and nothing else."""

import statistics

from aib.data.shapes import TEST_SEED
from aib.figures.table import Table, without_empty_columns
from aib.training.folder import RunFolder
from tests.tools.results.stored import (
    RESULTS,
    evaluation,
    pages_of,
    pages_of_runs,
    records,
    stored,
    write_finished_run,
)
from tools.results.errors import BESIDE, EVERY_RUN, OTHER_DATA, OTHERS
from tools.results.markdown import section
from tools.results.read import StoredRun, read_results
from tools.results.speed import study_table


def test_seeds_are_averaged_and_other_recipes_are_not(tmp_path):
    errors = (4.0, 5.0, 7.5)
    runs = [write_finished_run(tmp_path / f"s{i}", e, seed=i) for i, e in enumerate(errors)]
    runs.append(write_finished_run(tmp_path / "deeper", 9.0, latent_dim=8))
    runs.append(write_finished_run(tmp_path / "deep", 9.5, latent_dim=16))
    text = pages_of_runs(tmp_path, runs)["cifar10.md"]
    table = records(text, OTHERS)
    assert [(row["seeds"], row["options"]) for row in table] == [
        ("3", ""),
        ("1", "latent dim 8"),
        ("1", "latent dim 16"),
    ]
    assert table[0]["error %"] == f"{sum(errors) / 3:.2f} ± {statistics.stdev(errors):.2f}"
    assert table[0]["minutes"] == "1.5 ± 0.0"  # of the last log entry
    assert table[1]["error %"] == "9.00"
    assert len(records(text, EVERY_RUN)) == 5


def test_a_sweep_from_before_the_first_release_is_read():
    [sweep] = read_results(RESULTS).sweeps.values()
    assert sweep.runs and len(sweep.finished) == len(sweep.runs)


def test_maps_of_several_seeds_are_averaged_and_those_of_the_first_shown(tmp_path):
    content = stored("shapes_clutter.json")
    text = pages_of(tmp_path, content)["shapes.md"]
    exact = [run for run in content["runs"] if run["name"].startswith("exact")]
    cost = [100 * run["interpret"]["reliance"]["replaced"]["another"]["drop"] for run in exact]
    row = records(text, "Over seeds")[0]
    assert row["seeds"] == "3" and row["map is"] == "used"
    mean = f"{statistics.fmean(cost):.1f} ± {statistics.stdev(cost):.1f}"
    assert row["another image's map costs"] == mean
    assert "| exact_3 | tiny_aib_qt" in text and "| exact_4 | tiny_aib_qt" not in text


def test_a_seed_with_another_verdict_is_shown_as_well(tmp_path):
    text = pages_of(tmp_path, stored("cub200_full.json"))["cub200.md"]
    shown = [name for name in ("", "_1", "_2") if f"| cub_aib_qt{name} | vgg_aib_qt" in text]
    assert shown == ["", "_1", "_2"] and "| cub_masked_1 | vgg_aib_masked" not in text


def test_runs_measured_on_other_test_images_are_marked(tmp_path):
    content = stored("shapes_tiny_maps.json")
    text = pages_of(tmp_path, content)["shapes.md"]
    marked = {row["run"] for row in records(text, EVERY_RUN) if row["seed"].endswith("†")}
    assert marked == {run["name"] for run in content["runs"] if run["seed"] != TEST_SEED}
    assert all(row["data"] == "shapes †" for row in records(text, OTHERS))
    for run in content["runs"]:
        run.pop("test_images", None)
    assert "†" not in pages_of(tmp_path, content)["shapes.md"]


def test_older_studies_say_what_their_post_hoc_maps_attribute(tmp_path):
    """Those of profile paper attributed log-probabilities; in profile released logits are raw."""
    content = stored("shapes_vgg.json")
    text = pages_of(tmp_path, content)["shapes.md"]
    assert "attribute the log-probability of the class here" in text
    assert "(deeper, later, ours, residual)." in text  # not `released`
    for run in content["runs"]:
        run["interpret"].pop("posthoc_note", None)
    assert "log-probability" not in pages_of(tmp_path, content)["shapes.md"]


def test_models_of_the_paper_come_first_and_apart(tmp_path):
    runs = [
        write_finished_run(tmp_path / "wide", 4.6, model="wrn_aib_qt"),
        write_finished_run(tmp_path / "short", 5.0, model="vgg_aib_qt", epochs=9),
        write_finished_run(tmp_path / "long", 4.0, model="vgg_aib_qt", epochs=90),
        write_finished_run(tmp_path / "part", 6.0, model="vgg_aib_qt", holdout=0.1),
        write_finished_run(tmp_path / "narrow", 7.0, model="vgg_aib_qt", width=0.5),
    ]
    text = pages_of_runs(tmp_path, runs)["cifar10.md"]
    beside, others = records(text, BESIDE), records(text, OTHERS)
    assert [row["runs"] for row in beside] == ["long", "short", "wide"]
    assert [row["paper %"] for row in beside] == ["4.10", "4.10", "3.43"]
    assert [row["runs"] for row in others] == ["part", "narrow"]
    assert "paper %" not in others[0]


def test_empty_columns_are_left_out():
    table = Table("t", ("a", "b", "c"), (("1", "-", "-"), ("2", "-", "3")), "note")
    assert without_empty_columns(table) == Table("t", ("a", "c"), (("1", "-"), ("2", "3")), "note")
    table = Table("t", ("a", "b"), (("-", ""), ("-", "-")), "note")
    assert list(section(without_empty_columns(table))) == []


def test_errors_on_other_data_are_averaged_and_the_paper_s_stand_beside_its_protocol(tmp_path):
    runs = [
        write_finished_run(tmp_path / f"s{i}", 4.0, seed=i, model="vgg_aib_qt") for i in range(2)
    ]
    for i, folder in enumerate(runs):
        for classes, images, error in (("raw", 3996, 49.0 + i), ("matched", 3593, 14.0)):
            found = evaluation(error, "stl10", "train", classes, images)
            RunFolder(folder).write_evaluation(f"stl10 train {classes}", found)
    raw, matched = records(pages_of_runs(tmp_path, runs)["cifar10.md"], OTHER_DATA)
    assert raw["seeds"] == matched["seeds"] == "2"
    assert raw["error %"] == "49.50 ± 0.71" and matched["error %"] == "14.00 ± 0.00"
    assert raw["images"] == "3,996 of 5,000" and matched["images"] == "3,593"
    assert raw["paper %"] == "50.44" and matched["paper %"] == "-"


def test_folders_of_the_machine_are_not_shown(tmp_path):
    run = write_finished_run(tmp_path / "a", 4.0, data="folder:/home/me/photos")
    RunFolder(run).write_evaluation(
        "folder:/home/me/birds val", evaluation(5, "folder:/home/me/birds")
    )
    text = pages_of_runs(tmp_path, [run])["folder.md"]
    assert [row["data"] for row in records(text, OTHER_DATA)] == ["folder:birds test"]
    assert "/home" not in text


def test_speed_shows_how_long_studies_took_on_a_gpu():
    [run, *_] = stored("shapes_clutter.json")["runs"]
    took = {"one NVIDIA H200": (84.6, 120.0), "x86_64 CPU": (9.0,)}
    runs = [
        run | {"interpret": run["interpret"] | {"seconds": s, "environment": {"device": device}}}
        for device, seconds in took.items()
        for s in seconds
    ]
    table = study_table(map(StoredRun.from_dict, runs))
    assert [(row[0], row[-1]) for row in table.rows] == [(run["interpret"]["data"], "85")]
