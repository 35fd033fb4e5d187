"""From runs to results/*.json, and from there to the pages: nothing is lost, nothing invented."""

import json
import re
import statistics
from pathlib import Path

import pytest

import aib
from aib.cli import main as cli
from aib.config.presets import get_preset
from aib.config.settings import Settings
from aib.runs.files import write_evaluation
from tests.helpers import start_run
from tests.tools.stored import evaluation
from tools.results.__main__ import main
from tools.results.collect import collect, portable
from tools.results.pages import documents, make_table, pages
from tools.results.store import read_results

ROOT = Path(__file__).parents[2]
STORED = read_results(ROOT / "results")


def finished_run(folder: Path, error: float, **settings) -> Path:
    """A run's folder as training leaves it, with a made-up error and no weights."""
    values = {"data": "cifar10", "model": "tiny_aib_qt", "root": "/home/someone/data"} | settings
    s = Settings.from_dict(Settings().to_dict() | values, Path("config.json"))
    run = start_run(folder, aib.create_model("tiny_aib_qt"), s)
    run.log({"step": 9, "epoch": 1, "seconds": 90.0, "error": error + 1})
    split = "val" if s.holdout else "test"
    write_evaluation(run.folder, f"{s.data} {split}", evaluation(error, s.data, split))
    return folder


def collected(folder: Path, runs: list[Path], *words: str) -> Path:
    """A folder with one results file of these runs."""
    out = folder / "results" / "some.json"
    main(["collect", *map(str, runs), "--out", str(out), *words])
    return out.parent


def records(text: str, heading: str) -> list[dict[str, str]]:
    """The rows of the table below a heading."""
    below = re.split("\n##", text.split(f"## {heading}\n", 1)[1], maxsplit=1)[0]
    lines = [line for line in below.splitlines() if line.startswith("| ")]
    head, *rows = ([c.strip() for c in line.strip("|").split("|")] for line in lines)
    return [dict(zip(head, row, strict=True)) for row in rows]


def test_all_pages_and_tables_are_current():
    made = documents(ROOT)
    old = [path for path, text in made.items() if path.read_text(encoding="utf-8") != text]
    assert not old, "run: python -m tools.results docs"
    pages = {path for path in made if path.parent.name == "results"}
    assert set((ROOT / "docs" / "results").glob("*.md")) == pages
    assert all(made[path].count("\n") <= 150 for path in pages)


def test_a_results_file_names_no_folder_of_the_machine(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["aib", "train", "--root", "/home/someone/data"])
    found = collect([finished_run(tmp_path / "a", 4.0, epochs=7)], "title")
    [run] = found["runs"]
    assert run["recipe"] == {"data": "cifar10", "model": "tiny_aib_qt", "epochs": 7}
    assert run["environment"]["command"] == "aib train --root data"
    texts = [json.dumps(found), *(p.read_text() for p in (ROOT / "results").glob("*.json"))]
    for text in texts:
        assert not re.search(r"""["' =:]/[A-Za-z]""", text)
    typed = "aib eval '/a b/run' --root=/x/y --data folder:/c/d:image_size=64 --init vgg16:/w/v.npz"
    left = "aib eval run --root=y --data folder:d:image_size=64 --init vgg16:v.npz"
    assert portable({"command": typed})["command"] == left


def test_seeds_are_averaged_and_other_recipes_are_not(tmp_path):
    errors = (4.0, 5.0, 7.5)
    runs = [finished_run(tmp_path / f"s{i}", e, seed=i) for i, e in enumerate(errors)]
    runs += [finished_run(tmp_path / "narrow", 9.0, width=0.5)]
    runs += [finished_run(tmp_path / "part", 6.0, holdout=0.1)]
    text = pages(read_results(collected(tmp_path, runs)))["cifar10.md"]
    mean, narrow, part = records(text, "Error")
    assert mean["error %"] == f"{statistics.fmean(errors):.2f} ± {statistics.stdev(errors):.2f}"
    assert (mean["seeds"], narrow["recipe"], narrow["error %"]) == (
        "3", "width 0.5", "9.00 (8.00 to 10.00)",
    )  # fmt: skip
    assert part["error %"].endswith("‡")


def test_the_paper_s_error_stands_beside_models_of_its_form_only(tmp_path):
    fast = {**get_preset("cifar10_fast").recipe, "model": "vgg_pan"}
    runs = [finished_run(tmp_path / name, 5.0, **fast, **more) for name, more in {
        "same": {}, "narrow": {"width": 0.5}, "part": {"holdout": 0.1}
    }.items()]  # fmt: skip
    rows = records(pages(read_results(collected(tmp_path, runs)))["cifar10.md"], "Error")
    assert [row["paper %"] for row in rows] == ["6.29", "-", "-"]
    assert rows[0]["recipe"] == "`cifar10_fast`"


def test_maps_are_averaged_over_the_studies_of_a_recipe():
    table = make_table(STORED, "maps", "shapes_clutter")
    row = dict(zip(table.head, table.rows[0], strict=True))
    exact = [r.maps for r in STORED.files["shapes_clutter"].runs if r.name.startswith("exact")]
    drops = [100 * maps["drops"]["another"][0] for maps in exact]
    assert row["another image's map, points"] == (
        f"{statistics.fmean(drops):.1f} ± {statistics.stdev(drops):.1f}"
    )
    assert (row["seeds"], row["map is"]) == ("3", "used")


def test_new_results_appear_between_the_markers(tmp_path):
    fast = {**get_preset("cifar10_fast").recipe, "model": "vgg_pan"}
    collected(tmp_path, [finished_run(tmp_path / f"s{i}", 5.0 + i, **fast, seed=i) for i in (0, 1)])
    page = tmp_path / "README.md"
    page.write_text("# Title\n\n<!-- table: table_1 -->\nold\n<!-- end -->\n\nText.\n")
    main(["docs", str(tmp_path)])
    assert "| `vgg_pan` | 5.50 ± 0.71 / 6.29 | - / 24.35 |" in page.read_text()
    assert "old" not in page.read_text() and page.read_text().endswith("<!-- end -->\n\nText.\n")
    assert "vgg_pan" in (tmp_path / "docs" / "results" / "cifar10.md").read_text()


def test_an_unfinished_run_and_a_damaged_file_are_errors(tmp_path):
    folder = finished_run(tmp_path / "a", 4.0)
    (folder / "evaluation.json").unlink()
    with pytest.raises(aib.AibError, match="is not a finished run"):
        collect([folder], "t")
    (tmp_path / "some.json").write_text('{"kind": "runs", "title": "", "note": "", "runs": [{}]}')
    with pytest.raises(aib.AibError, match="not a complete results file"):
        read_results(tmp_path)


def test_what_was_measured_of_saved_models_has_a_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    aib.create_model("tiny_aib_masked", width=0.25).eval().save_pretrained("model")
    words = ["model", "--data", "shapes:count=12", "--device", "cpu", "--json"]
    assert cli(["eval", *words, "--deterministic"]) == 0
    only = ["swaps", "localisation", "backgrounds", "transplant"]
    assert cli(["interpret", *words, "--subset", "4", "--only", *only, "--out", "study"]) == 0
    main(["measured", "model", "study", "--out", "results/ours.json", "--title", "Ours"])
    study = json.loads(Path("study/interpret.json").read_text())
    [stored] = json.loads(Path("model/evaluation.json").read_text()).values()
    page = documents(tmp_path)[tmp_path / "docs/results/ours.md"]
    assert page.startswith("# Results: Ours") and f"{stored['top1_error']:.2f} (" in page
    mask, pixels = study["localisation"]["own"], study["backgrounds"]["other"]["value"]
    row = f"| 4 | own map | {100 * mask['pointing']['value']:.1f} | {mask['auroc']['value']:.3f} |"
    assert f"| shapes | `tiny_aib_masked` {row}" in page
    assert f"| {pixels:.1f} |" in page and study["verdict"]["name"] in page
    with pytest.raises(aib.AibError, match="neither"):
        main(["measured", "results", "--out", "results/none.json"])
