"""`aib data list`: what is known and what is on disk."""

from aib.cli import main
from aib.data import SPECS, load
from tests.data import official


def test_list_shows_what_is_in_the_cache_folder(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("AIB_DATA", str(tmp_path))
    official.write_cifar10(tmp_path)
    assert len(load("cifar10", "test")) == 20
    for words in ([], ["--root", str(tmp_path)]):
        assert main(["data", "list", *words]) == 0
        printed = capsys.readouterr().out
        assert all(name in printed for name in SPECS)
        assert "generated" in printed and "aib data fetch stl10" in printed
        assert "aib data fetch cifar10 " not in printed
