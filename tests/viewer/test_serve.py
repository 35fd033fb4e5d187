"""The server: whose requests it answers, and which files it opens."""

import io
import socket
from pathlib import Path

import pytest

from aib.viewer.serve import answers_to

pytest.importorskip("gradio")

from tests.helpers import photo
from tests.viewer.fixtures import Visitor, named, running, viewer

EVENTS = ["upload", "input"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def address(folder):
    with running(viewer(folder, samples=(1, 1)), folder / "cache") as url:
        yield url


@pytest.fixture
def visitor(address):
    visitor = Visitor(address)
    yield visitor
    visitor.http.close()


def png(seed: int = 0) -> bytes:
    buffer = io.BytesIO()
    photo(20, 20, seed).save(buffer, format="PNG")
    return buffer.getvalue()


def values(event: str, path: str) -> list:
    """The values of an event that names a file, as the upload or as the value of a slider."""
    return [named(path), 55] if event == "upload" else [None, named(path)]


def cached(folder: Path) -> set[str]:
    """Names of the files that Gradio keeps."""
    return {path.name for path in (folder / "cache").rglob("*")}


def test_an_upload_and_a_slider_are_answered(visitor, address):
    answer = visitor.call("upload", named(visitor.send("holiday.png", png())), 55)
    assert answer["success"] and "holiday.png" in str(answer["output"]["data"][2])
    answer = visitor.call("input", None, 20)  # of the picture that the server keeps
    assert answer["success"] and len(answer["output"]["data"][0]["value"]) == 3
    assert "reload the page" in Visitor(address).call("click", None, 55)["output"]["error"]


@pytest.mark.parametrize("event", EVENTS)
def test_a_file_of_the_disk_is_not_opened(visitor, folder, tmp_path, event):
    path = tmp_path / f"{event}.png"
    path.write_bytes(png())
    answer = visitor.call(event, *values(event, str(path)))
    assert not answer["success"] and "data" not in answer["output"]
    assert path.exists() and path.name not in cached(folder)


@pytest.mark.parametrize("event", EVENTS)
def test_nothing_is_downloaded(visitor, monkeypatch, event):
    asked = []

    async def download(url, **options):
        asked.append(url)
        raise OSError(url)

    monkeypatch.setattr("gradio.processing_utils.async_ssrf_protected_get", download)
    monkeypatch.setattr("safehttpx.get", download)
    url = "http://example.org/a.png"
    assert not visitor.call(event, *values(event, url))["success"]
    assert visitor.http.get(f"/gradio_api/file={url}").status_code == 403
    assert asked == []


@pytest.mark.parametrize(
    "host",
    (
        "evil.example:{port} 127.0.0.1.evil.example evil.example@127.0.0.1 8.8.8.8 [ "
        "127.0.0.1:{port}@evil.example 127.0.0.1/evil.example 127.0.0.1:"
    ).split(),
)
def test_other_host_names_are_refused(visitor, host):
    """A site whose name suddenly points at this machine (DNS rebinding)."""
    answer = visitor.http.get("/", headers={"host": host.format(port=visitor.http.base_url.port)})
    assert answer.status_code == 400


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "LOCALHOST:{port}", "localhost", "[::1]:80"])
def test_loopback_names_are_answered(visitor, host):
    host = host.format(port=visitor.http.base_url.port)
    own = {"host": host, "origin": f"http://{host}"}
    assert visitor.http.get("/", headers=own).status_code == 200


@pytest.mark.parametrize(
    ("header", "host", "address", "answered"),
    [
        ("gpu1:7860", "GPU1", "192.168.1.5", True),
        ("192.168.1.5:7860", "gpu1", "192.168.1.5", True),  # what the command prints
        ("192.168.1.6:7860", "gpu1", "192.168.1.5", False),
        ("localhost:7860", "gpu1", "192.168.1.5", True),
        ("gpu2:7860", "gpu1", "192.168.1.5", False),
        ("[fe80::1]:7860", "fe80::1", "fe80::1", True),
        ("203.0.113.9", "0.0.0.0", "172.17.0.2", True),  # in front of a container
        ("[2001:db8::1]", "::", "fe80::1", True),
        (socket.gethostname(), "0.0.0.0", "172.17.0.2", True),
        ("evil.example", "0.0.0.0", "172.17.0.2", False),
    ],
)
def test_names_of_a_server_that_others_reach(header, host, address, answered):
    assert answers_to(header, host, address) is answered


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "http://localhost:{port}", "http://127.0.0.1:1", "null"]
)
def test_other_origins_are_refused(visitor, folder, origin):
    origin = {"origin": origin.format(port=visitor.http.base_url.port)}
    path = visitor.send("a.png", png())
    for attempt in (
        visitor.http.post("/gradio_api/upload", files={"files": ("b.png", png())}, headers=origin),
        visitor.join("upload", named(path), 55, headers=origin),
        visitor.http.get("/config", headers=origin),
    ):
        assert attempt.status_code == 403
    assert Path(path).name in cached(folder) and "b.png" not in cached(folder)
