"""A results file that is not whole is named in a sentence, whatever it lacks."""

import json
from pathlib import Path

import pytest

import aib
from aib.cli import main
from tools.results.page import page

ROOT = Path(__file__).parents[2]
WHOLE = {
    name: json.loads((ROOT / "results" / f"{name}.json").read_text(encoding="utf-8"))
    for name in ("shapes_vgg", "bench_infer_vgg_aib_qt", "bench_infer_vgg_aib_qt_half_cpu")
}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"kind": "runs"}, "it has no 'runs'"),
        ({"kind": "runs", "runs": 3}, "of the wrong kind"),
        ({"kind": "runs", "runs": [None]}, "of the wrong kind"),
        ({"kind": "walks", "runs": []}, "is not a results file"),
        ({"what": "x"}, "it has no 'model'"),
        ({"panels": []}, "another version of aib"),
        ({"schema": 1, "panels": 1, "base": {}}, "preset cannot be None"),
    ],
)
def test_a_file_that_is_not_whole_is_named(tmp_path, capsys, content, sentence):
    (tmp_path / "broken.json").write_text(json.dumps(content))
    assert main(["results", "page", str(tmp_path), "--out", str(tmp_path / "page.md")]) == 2
    err = capsys.readouterr().err
    assert "broken.json is not a results file" in err and sentence in err
    assert not (tmp_path / "page.md").exists()


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("instead", ["nothing", None, [], "text"])
def test_whatever_is_damaged_nothing_but_a_sentence_comes_of_it(tmp_path, name, instead):
    refused = 0
    for where in _places(WHOLE[name]):
        damaged = json.loads(json.dumps(WHOLE[name]))
        inner = damaged
        for key in where[:-1]:
            inner = inner[key]
        if instead == "nothing":
            del inner[where[-1]]
        else:
            inner[where[-1]] = instead
        (tmp_path / "broken.json").write_text(json.dumps(damaged))
        try:
            page(tmp_path)
        except aib.AibError as error:
            refused += "broken.json" in str(error)
    assert refused > 3


def _places(content):
    """Each key of the file and, where it has runs, each of the first."""
    runs = content.get("runs", [{}])
    return [(key,) for key in content] + [("runs", 0, key) for key in runs[0]]
