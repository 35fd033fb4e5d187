"""The server: whose requests it answers, which files it opens, how many sessions it keeps."""

import gc
import io
import socket
import weakref
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest

from aib.viewer.serve import address_of, answers_to

pytest.importorskip("gradio")

from aib.viewer import page
from tests.helpers import photo
from tests.viewer.fixtures import Visitor, named, running, viewer

EVENTS = ["upload", "input"]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
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


def cached(visitor) -> set[Path]:
    cache = Path(visitor.thumbnails()[0]).parents[1]
    return {path for path in cache.rglob("*") if path.is_file()}


def test_an_upload_is_shown_and_its_file_is_gone(visitor):
    path = visitor.send("holiday.png", png())
    answer = visitor.call("upload", named(path), 55)
    assert answer["success"] and "holiday.png" in str(answer["output"]["data"][2])
    assert not Path(path).exists()


@pytest.mark.parametrize("event", EVENTS)
def test_a_file_of_the_disk_is_not_opened(visitor, tmp_path, event):
    path = tmp_path / f"{event}.png"
    path.write_bytes(png())
    answer = visitor.call(event, *values(event, str(path)))
    assert not answer["success"] and "data" not in answer["output"]
    assert path.exists() and not any(kept.name == path.name for kept in cached(visitor))


def test_every_file_that_a_request_names_is_found():
    request = [1, {"a": [named("x")]}, {"path": "y", "b": named("z")}]
    assert page.named_files(request) == {"x", "y", "z"}


def test_an_examples_picture_is_not_deleted(visitor):
    """Neither when a request names it, nor when the same picture is uploaded."""
    tile = Path(visitor.thumbnails()[0])
    assert not visitor.call("upload", named(str(tile)), 55)["success"]
    assert tile.exists()
    path = visitor.send(tile.name, tile.read_bytes())
    assert visitor.call("upload", named(path), 55)["success"]
    assert tile.exists()


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


def test_a_file_without_an_end_does_not_block_it(visitor):
    assert not visitor.call("upload", named("/dev/zero"), 55)["success"]
    assert visitor.http.get("/config").status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:{port}",
        "127.0.0.1.evil.example",
        "evil.example@127.0.0.1",
        "127.0.0.1:{port}@evil.example",
        "127.0.0.1/evil.example",
        "127.0.0.1:",
        "",
        "[",
        "8.8.8.8",
    ],
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


@pytest.mark.parametrize("host", ["::", "::1"])
def test_the_address_of_a_server_on_ipv6_is_one(host):
    listener = SimpleNamespace(family=socket.AF_INET6, getsockname=lambda: (host, 7860, 0, 0))
    assert address_of(listener) == "http://[::1]:7860"


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "http://localhost:{port}", "http://127.0.0.1:1", "null"]
)
def test_other_origins_are_refused(visitor, origin):
    origin = {"origin": origin.format(port=visitor.http.base_url.port)}
    path = visitor.send("a.png", png())
    for attempt in (
        visitor.http.post("/gradio_api/upload", files={"files": ("b.png", png())}, headers=origin),
        visitor.join("upload", named(path), 55, headers=origin),
        visitor.http.get("/config", headers=origin),
    ):
        assert attempt.status_code == 403
    assert Path(path).exists() and not any(kept.name == "b.png" for kept in cached(visitor))


def test_the_page_ignores_where_a_proxy_says_it_is(visitor):
    forwarded = {"x-forwarded-host": "evil.example", "x-forwarded-proto": "https"}
    answer = visitor.http.get("/", headers=forwarded)
    assert answer.status_code == 200 and "evil.example" not in answer.text


@pytest.mark.parametrize(
    ("event", "data"),
    [("input", [None, "a lot"]), ("input", []), ("input", [None, 1e9]), ("upload", [5, 55])],
)
def test_an_error_that_a_client_causes_is_one_line(visitor, capfd, event, data):
    assert not visitor.call(event, *data)["success"]
    out, errors = capfd.readouterr()
    assert out == "" and errors.startswith("aib view: ") and errors.count("\n") == 1


@pytest.mark.parametrize("path", ["queue/join", "run/upload"])
def test_a_large_request_is_refused_before_it_is_read(visitor, path):
    body = b'{"data": ["' + b" " * 2**20 + b'"]}'
    for content in (body, iter([body])):  # with its length in front, and in chunks
        answer = visitor.http.post(f"/gradio_api/{path}", content=content)
        assert answer.status_code == 413 and "1,048,576 bytes" in answer.text


def test_sessions_that_are_never_closed_make_room(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "SESSIONS", 2)
    page_viewer, scenes = viewer(tmp_path, samples=(1, 1)), []
    show = page_viewer.show

    def recorded(*args):
        scene = show(*args)
        scenes.append(weakref.ref(scene))
        return scene

    monkeypatch.setattr(page_viewer, "show", recorded)
    with running(page_viewer, tmp_path / "cache") as url:
        visitors = [Visitor(url) for _ in range(5)]
        assert all(visitor.call("load", 55)["success"] for visitor in visitors)
        gc.collect()
        assert len(scenes) == 5 and sum(scene() is not None for scene in scenes) == 2
        assert visitors[-1].call("click", None, 55)["success"]
        assert "reload the page" in visitors[0].call("click", None, 55)["output"]["error"]


def test_answers_that_are_never_fetched_make_room(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "SESSIONS", 2)
    with running(viewer(tmp_path, samples=(1, 1)), tmp_path / "cache") as url:
        gone = Visitor(url)
        gone.join("load", 55)
        assert all(Visitor(url).call("load", 55)["success"] for _ in range(2))
        assert next(gone.messages())["session_not_found"]


def test_a_slider_draws_the_map_of_a_single_run_again(visitor):
    visitor.call("load", 55)
    answer = visitor.call("input", None, 20)
    assert answer["success"], answer
    [maps] = answer["output"]["data"]
    assert len(maps["value"]) == 3


def test_a_slider_waits_for_the_picture_that_is_being_explained(tmp_path, monkeypatch):
    redrawn, start, redraw = Event(), page.Handlers.start, page.Handlers.redraw
    monkeypatch.setattr(page.Handlers, "start", lambda *args: redrawn.wait(1) or start(*args))
    monkeypatch.setattr(page.Handlers, "redraw", lambda *args: redrawn.set() or redraw(*args))
    with running(viewer(tmp_path, samples=(1, 1)), tmp_path / "cache") as url:
        visitor = Visitor(url)
        visitor.join("load", 55)
        answer = visitor.call("input", None, 20)
        assert answer["success"], answer  # it would draw the picture before: here there is none
