"""Results files and their page: the figures of runs, and nothing else."""

import json
import re
import shlex
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

import aib
from aib.cli import main
from aib.commands import train
from aib.configs import get_preset
from aib.data.shapes import TEST_SEED
from aib.figures.table import Table
from aib.interpret.results import SCHEMA
from aib.paper import PAPER_ERRORS, paper_error
from aib.runs import Run
from aib.settings import Settings
from tools.results.collect import collect
from tools.results.command import portable, train_command
from tools.results.errors import BESIDE, OTHERS
from tools.results.mark import NOTE, mark
from tools.results.markdown import without_empty_columns
from tools.results.page import page

ROOT = Path(__file__).parents[2]


def finished(folder: Path, error: float, **settings) -> Path:
    """A run's folder as training leaves it, with a made-up error and no weights."""
    made_by = {"data": "cifar10", "model": "tiny_aib_qt", "root": "/home/someone/data"}
    s = Settings(**(made_by | settings))
    run = Run.create(folder, aib.create_model("tiny_aib_qt"), s)
    run.log({"step": 5, "epoch": 0, "seconds": 30.0})
    run.log({"step": 9, "epoch": 1, "seconds": 90.0})
    run.write_evaluation(s.reported, evaluated(error, s.data, s.measured_split))
    return folder


def evaluated(error: float, data="cifar10", split="test", classes="own", images=10000) -> dict:
    """What `aib eval` leaves."""
    return {
        "data": data, "split": split, "classes": classes, "images": images, "top1_error": error,
        "top1_interval": [error - 1, error + 1], "nll": 0.25, "calibration_error": 1.5,
        "kl_bits": 8.0, "samples": "4x12",
    }  # fmt: skip


def paged(folder: Path, runs: list[Path], *more: str) -> str:
    """The page of a results file of these runs."""
    (folder / "kept").mkdir()
    out = folder / "kept" / "some.json"
    words = ["results", "collect", *map(str, runs), "--title", "t", *more, "--out", str(out)]
    assert main(words) == 0
    return page(folder / "kept")


def rows(text: str, heading: str) -> list[list[str]]:
    """The cells of the table below a heading."""
    below = text.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in below.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_seeds_are_averaged_and_other_recipes_are_not(tmp_path):
    errors = (4.0, 5.0, 7.5)
    runs = [finished(tmp_path / f"s{i}", e, seed=i) for i, e in enumerate(errors)]
    runs.append(finished(tmp_path / "deeper", 9.0, attention_depth=1))
    runs.append(finished(tmp_path / "noisy", 9.5, attention_noise=0.1))
    text = paged(tmp_path, runs)
    head, *cells = rows(text, OTHERS)
    table = [dict(zip(head, row, strict=True)) for row in cells]
    options = ["", "attention depth 1", "attention noise 0.1"]
    assert [(row["n"], row["options"]) for row in table] == list(zip("311", options, strict=True))
    mean, deviation = sum(errors) / 3, statistics.stdev(errors)
    assert table[0]["error %"] == f"{mean:.2f} ± {deviation:.2f}"
    assert table[0]["minutes"] == "1.5 ± 0.0"  # the last of the seconds
    assert table[1]["error %"] == "9.00"
    assert len(rows(text, "Every run")) == 1 + 5


def test_maps_of_several_seeds_are_averaged_and_those_of_the_first_shown(tmp_path):
    kept = json.loads((ROOT / "results" / "shapes_clutter.json").read_text())
    (tmp_path / "some.json").write_text(json.dumps(kept))
    text = page(tmp_path)
    exact = [run for run in kept["runs"] if run["name"].startswith("exact")]
    auroc = [run["interpret"]["localisation_own_all_images"]["auroc"] for run in exact]
    row = rows(text, "Over seeds")[1]  # below the head
    assert row[:3] == ["`tiny_aib_qt`", "", "3"] and row[-1] == "used (3)"
    assert f"{statistics.fmean(auroc):.2f} ± {statistics.stdev(auroc):.2f}" in row
    details = text.split("### Accuracy and maps")[1].split("\n## ")[0]
    assert re.findall(r"^\| (\w+) \| tiny_aib_qt", details, re.MULTILINE) == [
        "exact_3",
        "released_3",
    ]


def test_maps_of_one_seed_each_have_no_table_of_seeds(tmp_path):
    kept = json.loads((ROOT / "results" / "shapes_vgg.json").read_text())
    (tmp_path / "some.json").write_text(json.dumps(kept))
    assert "### Accuracy and maps" in page(tmp_path) and "Over seeds" not in page(tmp_path)


def test_runs_measured_on_other_test_images_are_marked(tmp_path):
    kept = json.loads((ROOT / "results" / "shapes_tiny_maps.json").read_text())
    (tmp_path / "some.json").write_text(json.dumps(kept))
    text = page(tmp_path)
    head, *cells = rows(text, "Every run")
    marked = {row[0] for row in cells if row[head.index("seed")].endswith("†")}
    assert marked == {run["name"] for run in kept["runs"] if run["seed"] != TEST_SEED}
    assert all(row[0] == "shapes †" for row in rows(text, OTHERS)[1:])
    assert "† Test images drawn by each run's own seed" in text
    assert f"not on the one test set that shapes have now: {kept['runs'][1]['name']}, " in text
    for run in kept["runs"]:
        run.pop("test_images", None)
    (tmp_path / "some.json").write_text(json.dumps(kept))
    assert "†" not in page(tmp_path) and "one test set" not in page(tmp_path)


def test_what_the_paper_has_a_figure_for_comes_first_and_apart(tmp_path):
    runs = [
        finished(tmp_path / "wide", 4.6, model="wrn_aib_qt"),
        finished(tmp_path / "short", 5.0, model="vgg_aib_qt", epochs=9),
        finished(tmp_path / "long", 4.0, model="vgg_aib_qt", epochs=90),
        finished(tmp_path / "part", 6.0, model="vgg_aib_qt", holdout=0.1),
        finished(tmp_path / "narrow", 7.0, model="vgg_aib_qt", width=0.5),
    ]
    text = paged(tmp_path, runs)
    beside, others = rows(text, BESIDE), rows(text, OTHERS)
    at = beside[0].index("runs")
    assert [row[at] for row in beside[1:]] == ["long", "short", "wide"]
    assert [row[beside[0].index("paper %")] for row in beside[1:]] == ["4.10", "4.10", "3.43"]
    assert [row[others[0].index("runs")] for row in others[1:]] == ["part", "narrow"]
    assert "paper %" not in others[0]


def test_a_page_begins_with_links_to_its_parts_and_keeps_notes_of_runs_without_maps(tmp_path):
    text = paged(tmp_path, [finished(tmp_path / "a", 4.0)], "--note", "Shared the GPU.")
    parts = re.findall("^## (.+)$", text, re.MULTILINE)
    assert parts == [OTHERS, "Every run"]
    links = re.findall(r"^- \[(.+)\]\(#([\w-]+)\)$", text, re.MULTILINE)
    assert [title for title, _ in links] == parts
    assert links[0][1] == "error-other-forms-shorter-trainings-searches"
    assert "- [t](../results/some.json): Shared the GPU." in text


def test_columns_without_a_figure_are_left_out():
    table = Table("t", ("a", "b", "c"), (("1", "-", "-"), ("2", "-", "3")), "note")
    rows = (("1", "-"), ("2", "3"))
    assert without_empty_columns(table) == Table("t", ("a", "c"), rows, "note")


def test_the_training_error_is_that_of_the_last_steps(tmp_path):
    folder = finished(tmp_path / "a", 4.0)
    Run(folder).log({"step": 10, "epoch": 1, "error": 7.5, "seconds": 91.0})
    Run(folder).log({"step": 10, "epoch": 1, "anchors": [0.5]})
    [run] = collect([folder], "t")["runs"]
    assert run["training_error"] == 7.5
    [head, row] = rows(paged(tmp_path, [folder]), "Every run")
    assert row[head.index("training error %")] == "7.50"


def test_other_data_are_averaged_over_seeds_and_the_paper_stands_beside_its_own_reading(tmp_path):
    runs = [finished(tmp_path / f"s{i}", 4.0, seed=i, model="vgg_aib_qt") for i in range(2)]
    for i, folder in enumerate(runs):
        for classes, images, error in (("raw", 3996, 49.0 + i), ("matched", 3593, 14.0)):
            figures = evaluated(error, "stl10", "train", classes, images)
            Run(folder).write_evaluation(f"stl10 train {classes}", figures)
    head, *cells = rows(paged(tmp_path, runs), "Other data")
    raw, matched = (dict(zip(head, row, strict=True)) for row in cells)
    assert raw["n"] == matched["n"] == "2"
    assert raw["error %"] == "49.50 ± 0.71" and matched["error %"] == "14.00 ± 0.00"
    assert raw["images"] == "3,996 of 5,000" and matched["images"] == "3,593"
    assert raw["paper %"] == "50.44" and matched["paper %"] == "-"


@pytest.mark.parametrize(("bits", "rows_of_seeds"), [(None, ["2"]), (8.0, ["2", "1"])])
def test_samples_tell_evaluations_apart_where_there_is_noise(tmp_path, bits, rows_of_seeds):
    runs = [finished(tmp_path / f"s{i}", 4.0, seed=i) for i in range(2)]
    for folder, ways in zip(runs, (["4x12"], ["4x12", "deterministic"]), strict=True):
        for samples in ways:
            figures = evaluated(49.0, "svhn") | {"kl_bits": bits, "samples": samples}
            Run(folder).write_evaluation(f"svhn test {samples} over probabilities", figures)
    head, *cells = rows(paged(tmp_path, runs), "Other data")
    assert [row[head.index("n")] for row in cells] == rows_of_seeds


def test_other_data_are_told_from_a_run_s_own_and_named_without_folders(tmp_path):
    run = finished(tmp_path / "a", 4.0, data="folder:/home/me/photos")
    Run(run).write_evaluation("folder:/home/me/birds val", evaluated(5, "folder:/home/me/birds"))
    cluttered = finished(tmp_path / "b", 4.0, data="shapes:clutter=2")
    Run(cluttered).write_evaluation("shapes test", evaluated(6.0, "shapes"))
    text = paged(tmp_path, [run, cluttered])
    _, *cells = rows(text, "Other data")
    assert [row[0] for row in cells] == ["folder:birds test", "shapes test"]
    assert "/home" not in text


def test_a_results_file_says_what_was_done_and_not_where(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["aib", "train", "--root", "/home/someone/data"])
    folder = finished(tmp_path / "a", 4.0, epochs=7)
    notes = [f"no svhn images under {Path.home()}/data"]
    maps = {"faithfulness": {}, "environment": {}, "notes": notes, "run": str(folder)}
    (folder / "interpret.json").write_text(json.dumps(maps))
    found = collect([folder], "title")
    [run] = found["runs"]
    assert run["interpret"].pop("notes") == ["no svhn images under ~/data"]
    assert run["interpret"] == {"faithfulness": {}, "environment": {}}
    assert run["recipe"] == {"data": "cifar10", "model": "tiny_aib_qt", "epochs": 7}
    assert run["environment"]["command"] == "aib train --root data"
    assert "/home" not in json.dumps(found) and str(tmp_path) not in json.dumps(found)
    model = aib.create_model("tiny_aib_qt")
    assert run["parameters"] == sum(p.numel() for p in model.parameters())


def test_paths_leave_the_command_and_nothing_else_does():
    typed = "aib eval '/a b/run' --root=/x/y --data folder:/c/d:image_size=64 --samples 4x12"
    facts = {"torch": "2.13", "command": typed}
    left = "aib eval run --root=y --data folder:d:image_size=64 --samples 4x12"
    assert portable(facts) == facts | {"command": left}
    assert portable({"command": None}) == {"command": None}


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        get_preset("cifar10_fast").settings,
        replace(get_preset("cifar10_fast").settings, seed=3),
        replace(get_preset("cifar10_fast").settings, lr=0.4, milestones=(3, 7), tap=1),
        Settings(data="shapes:count=40", compile=True, augment=False, clip=0.5, beta=1e-4),
    ],
)
def test_the_command_on_the_page_gives_the_recipe_back(settings, monkeypatch):
    trained = []
    monkeypatch.setattr(train, "start", lambda options, name: trained.append(options.settings))
    assert main(shlex.split(train_command(settings.recipe()))[1:]) == 0
    assert [s.recipe() for s in trained] == [settings.recipe()]


@pytest.mark.parametrize(
    ("preset", "change", "command"),
    [
        ("cifar10_fast", {}, "aib train cifar10_fast"),
        (
            "cifar10_fast",
            {"model": "vgg", "seed": 2},
            "aib train cifar10_fast --model vgg --seed 2",
        ),
        ("cifar10_small", {"cutout": 0}, "aib train cifar10_small --cutout 0"),
        ("cifar10_fast", {"data": "svhn", "epochs": 9}, None),  # no preset of other data
    ],
)
def test_a_command_names_the_nearest_preset_of_the_data(preset, change, command):
    found = train_command(replace(get_preset(preset).settings, **change).recipe())
    assert found == command if command else "cifar10" not in found


def test_an_unfinished_run_and_a_foreign_file_are_refused(tmp_path, capsys):
    folder = finished(tmp_path / "a", 4.0)
    (folder / "evaluation.json").unlink()
    words = ["results", "collect", str(folder), "--title", "t", "--out", str(tmp_path / "o.json")]
    assert main(words) == 2
    assert "is not a finished run" in capsys.readouterr().err
    assert not (tmp_path / "o.json").exists()
    (tmp_path / "kept").mkdir()
    with pytest.raises(aib.AibError, match="no results in"):
        page(tmp_path / "kept")
    (tmp_path / "kept" / "x.json").write_text('{"a": 1}')
    with pytest.raises(aib.AibError, match="is not a results file"):
        page(tmp_path / "kept")


def test_a_narrow_replayed_model_is_said_to_be_one_and_its_latency_has_a_table(tmp_path):
    bench = json.loads((ROOT / "results" / "bench_infer_vgg_aib_qt_half_cpu.json").read_text())
    bench |= {"graphs": True, "width": 0.25}
    (tmp_path / "bench.json").write_text(json.dumps(bench))
    text = page(tmp_path)
    [_, speed] = rows(text, "Speed")
    assert speed[1] == "`vgg_aib_qt` at width 0.25" and speed[2].endswith(
        ", 4x12 samples, CUDA graphs"
    )
    waits = bench["latency"]["rows"]
    found = [(row[1], row[2], row[3]) for row in rows(text, "Latency")[1:]]
    assert found == [(str(w["batch"]), w["way"], f"{w['median_ms']:.1f}") for w in waits]


def test_the_page_in_docs_is_the_one_the_results_give():
    assert (ROOT / "docs" / "results.md").read_text(encoding="utf-8") == page(ROOT / "results")


def test_no_results_file_names_a_folder_of_the_machine():
    for path in (ROOT / "results").glob("*.json"):
        assert not re.search(r"""["' =:]/[A-Za-z]""", path.read_text()), path


def test_the_papers_table_has_what_the_paper_gives():
    assert len(PAPER_ERRORS) == 12 * 6 - 4  # WRN and WRN-ABN have gaps
    assert paper_error("vgg", "cifar10") == 7.77
    assert paper_error("wrn_aib_qt", "stl10 test") == 50.49
    assert paper_error("wrn_aib_qt", "cub200:crop") == 15.50
    assert paper_error("wrn", "svhn") is None and paper_error("tiny", "shapes") is None


def test_studies_that_attributed_log_probabilities_are_marked_and_the_page_says_so(tmp_path):
    kept = json.loads((ROOT / "results" / "shapes_vgg.json").read_text())
    for run in kept["runs"]:
        run["interpret"].pop("posthoc_note", None)
    plain = json.dumps(kept)
    assert mark(kept) == 4  # not the run of the released profile, whose logits are raw
    (tmp_path / "some.json").write_text(json.dumps(kept))
    assert f"{NOTE} (deeper, later, ours, residual).\n" in page(tmp_path)
    for run in kept["runs"]:
        noted = run["interpret"].pop("posthoc_note", None)
        assert (noted is None) == (run["interpret"]["profile"] == "released")
    assert json.dumps(kept) == plain  # no metric was touched
    for run in kept["runs"]:
        run["interpret"]["schema"] = SCHEMA
    assert mark(kept) == 0  # measured as today


def test_every_kept_study_that_needs_the_note_has_it():
    packaged = (ROOT / "aib" / "pretrained_models").glob("*/interpret.json")
    for path in [*(ROOT / "results").glob("*.json"), *packaged]:
        found = json.loads(path.read_text())
        before = json.dumps(found)
        mark(found)
        assert json.dumps(found) == before, f"python -m tools.results.mark {path}"
