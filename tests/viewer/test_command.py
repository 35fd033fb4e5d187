"""`aib view` on the command line: its errors, how it starts and how it ends."""

import os
import re
import signal
import socket
import sys
import urllib.request

import pytest

from aib import cli
from aib.viewer import serve
from tests.helpers import make_run
from tests.viewer.fixtures import served


def run(capsys, *words):
    code = cli.main(["view", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_without_gradio_it_says_how_to_install_it(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "gradio", None)
    code, _, err = run(capsys, "--run", str(tmp_path))
    assert code == 2
    how = "pip install 'aib[viewer]'"
    assert err == f"aib view: the viewer needs Gradio: {how}\n"


@pytest.fixture
def no_gradio_needed(monkeypatch):
    monkeypatch.setattr(serve, "prepare_gradio", lambda folder: None)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--run", "nowhere"], "nowhere is not a run"),
        (["--samples", "many"], "samples are written SxM"),
        (["--host", "not a host"], "--host not a host --port 0 cannot be opened"),
        (["--port", "70000"], "--port 70000 cannot be opened"),
        (["--port", "PORT"], "--port PORT cannot be opened"),
    ],
)
def test_mistakes_give_readable_errors(capsys, no_gradio_needed, words, message):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        code, _, err = run(capsys, *(word.replace("PORT", port) for word in words))
    message = message.replace("PORT", port)
    assert code == 2 and message in err and err.count("\n") == 1


def test_a_warning_if_other_machines_reach_it(capsys, no_gradio_needed, monkeypatch, tmp_path):
    monkeypatch.setattr(serve, "serve", lambda *args: None)
    folder = str(make_run(tmp_path / "model"))
    code, out, err = run(capsys, "--run", folder, "--no-browser")
    assert code == 0 and err == "" and re.search(r"http://127\.0\.0\.1:\d+ ", out)
    assert out.startswith("starting the viewer ...\n")  # before what takes seconds
    code, out, err = run(capsys, "--run", folder, "--no-browser", "--host", "0.0.0.0")
    assert code == 0 and "warning: --host 0.0.0.0 lets other machines use this page" in err
    assert re.search(r"http://127\.0\.0\.1:\d+ ", out)


@pytest.mark.slow  # processes that import everything
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_its_folder_is_removed(tmp_path, stop):
    pytest.importorskip("gradio")
    folder, temporary = make_run(tmp_path / "model"), tmp_path / "tmp"
    temporary.mkdir()
    environment = os.environ | {"TMPDIR": str(temporary)}
    with served("--run", str(folder), stop=stop, env=environment) as url:
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert answer.status == 200
        assert list(temporary.glob("aib-view-*"))
    assert not list(temporary.glob("aib-view-*"))
