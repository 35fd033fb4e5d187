"""A sweep plans its runs, trains what is left, and reports means over seeds."""

import csv
import json

import pytest

from aib import sweep as module
from aib.cli import main
from aib.config.settings import Settings
from aib.errors import AibError
from aib.sweep import parse_grid, plan, plot, sweep, tables
from aib.system.files import sha256

BASE = Settings(
    data="shapes:count=48", model="tiny_aib_qt", epochs=1, batch_size=16, accelerator="cpu", seed=3
).updated(width=0.25)


def grids(*texts):
    return [parse_grid(text) for text in texts]


@pytest.mark.parametrize(
    ("text", "setting", "values"),
    [
        ("beta=1e-3,0.01,1", "beta", (0.001, 0.01, 1)),
        ("K=8, 32,8", "latent_dim", (8, 32)),
        ("Q=none,20", "num_anchors", (None, 20)),
        ("augment=true,false", "augment", (True, False)),
        ("model=vgg,vgg_aib", "model", ("vgg", "vgg_aib")),
    ],
)
def test_a_grid_has_values_of_the_settings_type(text, setting, values):
    grid = parse_grid(text)
    assert (grid.setting, grid.values) == (setting, values)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("beta", "SETTING=VALUE"),
        ("beta=1,,2", "SETTING=VALUE"),
        ("bta=1", "did you mean beta"),
        ("holdout=0.1,0.2", "cannot vary 'holdout'"),
        ("K=1.5", "K must be an integer"),
    ],
)
def test_a_grid_that_cannot_be_varied_is_an_error(text, reason):
    with pytest.raises(AibError, match=reason):
        parse_grid(text)


@pytest.mark.parametrize(
    ("base", "options", "reason"),
    [
        (BASE, {"grids": []}, "--grid"),
        (BASE, {"seeds": 0}, "seeds"),
        (BASE.updated(devices=2), {}, "one device"),
        (BASE, {"grids": grids("beta=-1")}, "beta"),
    ],
)
def test_a_plan_that_cannot_be_trained_is_an_error(base, options, reason):
    with pytest.raises(AibError, match=reason):
        plan(base, **{"grids": grids("K=8"), **options})


def test_each_setting_is_varied_alone_and_seeds_come_last():
    runs = plan(BASE, grids("beta=0.01,0.1", "K=8", "init=/a/b"), seeds=2)
    names = ["base,seed={}", "beta=0.1,seed={}", "K=8,seed={}", "init=%2Fa%2Fb,seed={}"]
    assert [run.name for run in runs] == [name.format(seed) for seed in (3, 4) for name in names]
    changed = runs[6].settings
    assert changed == BASE.updated(latent_dim=8, seed=4)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    runs = plan(BASE, grids("beta=0.01,0.1", "K=32"), seeds=2)
    return folder, runs, *sweep(runs, folder)


def test_a_run_is_trained_once_and_has_a_row_in_each_of_its_grids(trained):
    folder, runs, rows, failed = trained
    assert failed == [] and len(rows) == len(runs)
    stored = list(csv.DictReader((folder / "sweep.csv").open()))
    assert [(r["run"], float(r["top1_error"])) for r in stored] == [
        (r["run"], r["top1_error"]) for r in rows
    ]
    for row in rows:
        evaluation = json.loads((folder / row["run"] / "evaluation.json").read_text())
        assert row["top1_error"] == evaluation[f"{BASE.data} test"]["top1_error"]
        assert row["kl_bits"] > 0 and 1 <= row["perplexity"] <= 20
    assert (folder / "sweep.png").stat().st_size > 1000


def test_finished_runs_are_not_trained_again_and_interrupted_ones_are_resumed(trained, monkeypatch):
    folder, runs, rows, _ = trained
    started = []
    monkeypatch.setattr(module, "train", lambda s, path, **o: started.append((path.name, o)))
    assert sweep(runs, folder) == (rows, []) and started == []
    more = plan(BASE, grids("beta=0.5"))  # a new value
    sweep(more, folder)
    path = folder / rows[0]["run"] / "evaluation.json"
    kept = path.read_text()
    path.unlink()  # killed before it was written
    sweep(runs, folder)
    path.write_text(kept)
    resumed = [(name, options["resume"]) for name, options in started]
    assert resumed == [("beta=0.5,seed=3", False), (rows[0]["run"], True)]


def test_an_evaluation_of_other_weights_does_not_count(trained):
    folder, runs, rows, _ = trained
    weights = folder / rows[0]["run"] / "model.safetensors"
    content, before = weights.read_bytes(), sha256(weights)
    weights.write_bytes(content + b" ")
    assert runs[0].evaluation(folder) is None
    weights.write_bytes(content)
    assert runs[0].evaluation(folder).weights_sha256 == before


def test_runs_of_other_settings_are_not_mixed(trained):
    folder, _, _, _ = trained
    with pytest.raises(AibError, match="epochs was 1 and is now 2"):
        sweep(plan(BASE.updated(epochs=2), grids("beta=0.1")), folder)


def test_a_failed_run_does_not_stop_the_others_and_is_the_commands_error(tmp_path, capsys):
    words = "sweep --data shapes:count=48 --model tiny_aib_qt --width 0.25 --epochs 1"
    words += f" --batch-size 16 --accelerator cpu --grid model=nope,tiny --out {tmp_path} --json"
    assert main(words.split()) == 2
    out, err = capsys.readouterr()
    assert "no model 'nope'" in out + err and "1 run failed" in err
    assert (tmp_path / "model=tiny,seed=0" / "evaluation.json").is_file()


def results(*errors, setting="beta", value=0.1):
    empty = dict.fromkeys(module.SHOWN)
    rows = [empty | {"top1_error": e, "split": "test", "seed": i} for i, e in enumerate(errors)]
    return [row | {"setting": setting, "value": value} for row in rows]


def test_tables_and_plot_show_means_and_standard_deviations_over_seeds():
    rows = results(10, 12, 14, value=0.001) + results(20, value=1.0) + results(5, setting="K")
    first, second = tables(rows)
    assert first.head == ("beta", "seeds", "top-1 error, %")
    assert first.rows == (("0.001", "3", "12.00 ± 2.00"), ("1", "1", "20.00"))
    assert second.rows == (("0.1", "1", "5.00"),)
    left, _ = plot(rows).axes
    assert [list(data) for data in left.lines[0].get_data()] == [[0, 1], [12, 20]]
    bars = [bar[:, 1].tolist() for bar in left.collections[0].get_segments() if len(bar)]
    assert bars == [[10, 14]]  # none for one seed
