"""A viewer of small untrained models, its server, and a client that talks as Gradio's script."""

import json
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from aib.runs.run import Run
from aib.viewer.scene import Viewer
from aib.viewer.serve import listen, make_app, prepare_gradio
from tests.helpers import photo, shapes, small_model

EXAMPLES = [(photo(32, 32, seed), f"example {seed}") for seed in range(3)]
TIMEOUT = 60  # seconds


def opened(folder: Path, name: str = "tiny_aib_qt") -> Run:
    model = small_model(name, preprocessing=shapes(2).preprocessing).eval()
    return Run(folder=folder / name, label=name, model=model, settings=None)


def viewer(
    folder: Path, name: str = "tiny_aib_qt", samples: tuple[int, int] | None = None
) -> Viewer:
    return Viewer(opened(folder, name).model, name, samples=samples)


@contextmanager
def running(viewer: Viewer, folder: Path) -> Iterator[str]:
    """The address of a page whose cache is `folder`."""
    import uvicorn

    with pytest.MonkeyPatch.context() as patch, listen("127.0.0.1", 0) as listener:
        patch.setenv("GRADIO_TEMP_DIR", "")  # restored afterwards
        patch.setenv("GRADIO_ANALYTICS_ENABLED", "")
        prepare_gradio(str(folder))
        app = make_app(viewer, EXAMPLES, "127.0.0.1")
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", ws="none"))
        # A daemon: a server that hangs fails its test, and must not keep pytest from ending.
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield "http://{}:{}".format(*listener.getsockname())
        finally:
            server.should_exit = True
            thread.join(TIMEOUT)


@contextmanager
def served(*words: str, stop: signal.Signals = signal.SIGINT, **options: Any) -> Iterator[str]:
    """The address of `aib view` in a process of its own, which a signal ends without an error."""
    process = subprocess.Popen(
        [sys.executable, "-m", "aib", "view", *words, "--no-browser"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
    try:
        assert process.stdout is not None
        found = (re.match(r"http://\S+", line) for line in process.stdout)
        address = next((match[0] for match in found if match), None)
        if address is not None:
            yield address
            process.send_signal(stop)
        out, errors = process.communicate(timeout=TIMEOUT)
    finally:
        process.kill()
    assert errors == "" and process.returncode == (0 if stop == signal.SIGINT else 128 + stop)
    assert (out.splitlines()[-1:] == ["closed"]) == (stop == signal.SIGINT)


class Visitor:
    """One session of the page."""

    def __init__(self, url: str) -> None:
        import httpx

        self.http = httpx.Client(base_url=url, timeout=TIMEOUT)
        self.session = uuid.uuid4().hex
        self.config = self.http.get("/config").json()

    def call(self, event: str, *data: Any) -> dict[str, Any]:
        """The answer to an event: `success`, and `output` with the data or the error."""
        answer = self.join(event, *data)
        assert answer.status_code == 200, answer.text
        wanted = answer.json()["event_id"]
        return next(
            message
            for message in self.messages()
            if message["msg"] == "process_completed" and message["event_id"] == wanted
        )

    def messages(self) -> Iterator[dict[str, Any]]:
        """The server's messages to the client, as they come."""
        query = {"session_hash": self.session}
        with self.http.stream("GET", "/gradio_api/queue/data", params=query) as lines:
            for line in lines.iter_lines():
                if line:
                    yield json.loads(line.removeprefix("data: "))

    def join(self, event: str, *data: Any, **options: Any) -> Any:
        """Send an event, such as "upload", without waiting for its answer."""
        found = (
            d["id"] for d in self.config["dependencies"] for t in d["targets"] if t[1] == event
        )
        body = {"fn_index": next(found), "data": data, "session_hash": self.session}
        return self.http.post("/gradio_api/queue/join", json=body, **options)

    def send(self, name: str, content: bytes) -> str:
        """Upload a file; the path that it gets."""
        [path] = self.http.post("/gradio_api/upload", files={"files": (name, content)}).json()
        return str(path)


def named(path: str) -> dict[str, Any]:
    """A file as a client names it."""
    return {"path": path, "orig_name": "x.png", "meta": {"_type": "gradio.FileData"}}
