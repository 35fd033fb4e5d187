"""`aib data list`: what is known and what is on disk."""

import json

from aib.cli import main
from aib.data import SPECS, load
from tests.data import official


def test_list_shows_what_is_in_the_cache_folder(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("AIB_DATA", str(tmp_path))
    official.write_cifar10(tmp_path)
    assert len(load("cifar10", "test")) == 20
    assert main(["data", "list", "--json"]) == 0
    sets = {row["name"]: row for row in json.loads(capsys.readouterr().out)["sets"]}
    assert set(sets) == {*SPECS, "shapes_spurious"}
    assert sets["cifar10"]["location"].endswith("cifar-10-batches-bin")
    assert sets["stl10"]["location"] is None and sets["shapes"]["location"] == "generated"
    assert main(["data", "list", "--root", str(tmp_path)]) == 0
    assert "aib data fetch stl10" in capsys.readouterr().out
