"""The examples run as they are, and do what they say."""

import json
from pathlib import Path

import pytest

import aib

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """Run an example as `python examples/NAME.py` would, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run_example(name: str, subset: str = "") -> str:
        """`subset` replaces the example's own."""
        text = (EXAMPLES / name).read_text(encoding="utf-8")
        assert not subset or "subset=32" in text
        exec(compile(text.replace("subset=32", subset), name, "exec"), {"__name__": "__main__"})
        return capsys.readouterr().out

    return run_example


def code_cells(name: str) -> list[dict]:
    cells = json.loads((EXAMPLES / name).read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.filterwarnings("ignore:.*cannot judge maps")  # the evaluator learns for 3 steps
def test_trusted_map_runs_to_a_verdict(tmp_path, monkeypatch, capsys):
    """With one epoch and few pictures: how well it learns is not a test's business."""
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for cell in code_cells("trusted_map.ipynb"):
        text = "".join(cell["source"]).replace("= 8, 480, 240", "= 1, 96, 48")
        exec(text.replace("subset=32", "subset=8"), names)
    assert (names["epochs"], len(names["test"])) == (1, 48)
    assert f"{names['results'].verdict.name}\n" in capsys.readouterr().out
    assert names["results"].evaluator is not None and names["results"].localisation["own"]
    assert {path.name for path in (tmp_path / "maps").glob("*.png")} == {"0.png"}
    assert aib.from_pretrained("my_model").preprocessing.class_names == ("disc", "plus", "square")


def test_score_foreign_method(run, tmp_path):
    out = run("score_foreign_method.py", subset="subset=8")
    rows = {line[:21].strip(): line[21:].split() for line in out.splitlines()[2:]}
    auroc = {name: float(row[0]) for name, row in rows.items()}
    assert auroc["occlusion"] > 0.8 and auroc["input gradient"] > 0.8  # they find the block
    assert auroc["constant"] == 0.5 and 0.4 < auroc["random"] < 0.6
    assert not list(tmp_path.iterdir())
