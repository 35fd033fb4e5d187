"""A Hugging Face Hub on this machine: what huggingface_hub asks of the real one, over HTTP."""

import base64
import hashlib
import json
from collections.abc import Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from huggingface_hub import constants, file_download, utils

TOKEN = "hf_secret"


class Hub:
    """Repositories by name: branches and commits to files."""

    def __init__(self) -> None:
        self.commits: dict[str, dict[str, dict[str, bytes]]] = {}  # repository -> commit -> files
        self.branches: dict[str, dict[str, str]] = {}
        self.asked: list[str] = []  # files of downloads

    def commit(
        self, repo: str, files: dict[str, bytes], branch: str = "main", deleted: Sequence[str] = ()
    ) -> str:
        """Add files to a branch, and delete others; return the commit."""
        known, branches = self.commits.setdefault(repo, {}), self.branches.setdefault(repo, {})
        whole = known.get(branches.get(branch, ""), {}) | files
        whole = {name: content for name, content in whole.items() if name not in deleted}
        branches[branch] = hashlib.sha1(repr(sorted(whole.items())).encode()).hexdigest()
        known[branches[branch]] = whole
        return branches[branch]

    def upload(self, repo: str, folder: Path, branch: str = "main") -> str:
        files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        return self.commit(repo, files, branch)

    def files(self, repo: str, revision: str = "main") -> dict[str, bytes]:
        return self.commits[repo][self.branches[repo].get(revision, revision)]


class Handler(BaseHTTPRequestHandler):
    hub: Hub

    def do_HEAD(self) -> None:
        self.send_file(body=False)

    def do_GET(self) -> None:
        if self.path.startswith("/api/models/"):
            owner, name, *listed = self.path.partition("?")[0].split("/")[3:]
            if f"{owner}/{name}" not in self.hub.commits:
                return self.answer(404, {"X-Error-Code": "RepoNotFound"})
            if listed:  # tree/REVISION
                files = self.hub.files(f"{owner}/{name}", listed[1])
                entries = [{"type": "file", "path": path, "size": 1, "oid": ""} for path in files]
                return self.answer_json(entries)
            # huggingface_hub 0.33 asks before an upload
            return self.answer_json({"id": f"{owner}/{name}", "xetEnabled": False})
        return self.send_file(body=True)

    def send_file(self, body: bool):
        owner, name, _, revision, file = self.path.strip("/").split("/", 4)
        repo = f"{owner}/{name}"
        if repo not in self.hub.commits:
            return self.answer(404, {"X-Error-Code": "RepoNotFound"})
        commit = self.hub.branches[repo].get(revision, revision)
        if commit not in self.hub.commits[repo]:
            return self.answer(404, {"X-Error-Code": "RevisionNotFound"})
        self.hub.asked.append(file)
        content = self.hub.commits[repo][commit].get(file)
        found = {"X-Repo-Commit": commit}
        if content is None:
            return self.answer(404, found | {"X-Error-Code": "EntryNotFound"})
        found["ETag"] = f'"{hashlib.sha1(content).hexdigest()}"'
        return self.answer(200, found, content, body)

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.answer(401)
        kind, *rest = self.path.strip("/").split("/")[1:]
        if kind == "validate-yaml":
            return self.answer_json({"errors": [], "warnings": []})
        if kind == "repos":
            about = json.loads(sent)
            repo = f"{about['organization']}/{about['name']}"
            if repo in self.hub.commits:
                return self.answer_json({"url": f"{self.url}/{repo}"}, 409)
            self.hub.commit(repo, {})
            return self.answer_json({"url": f"{self.url}/{repo}"})
        owner, name, action, branch = rest
        if action == "preupload":
            files = [
                {"path": one["path"], "uploadMode": "regular", "shouldIgnore": False}
                for one in json.loads(sent)["files"]
            ]
            return self.answer_json({"files": files})
        lines = [json.loads(line) for line in sent.splitlines()]
        files = {
            line["value"]["path"]: base64.b64decode(line["value"]["content"])
            for line in lines
            if line["key"] == "file"
        }
        deleted = [line["value"]["path"] for line in lines if line["key"] == "deletedFile"]
        commit = self.hub.commit(f"{owner}/{name}", files, branch, deleted)
        url = f"{self.url}/{owner}/{name}/commit/{commit}"
        return self.answer_json({"commitUrl": url, "commitOid": commit, "success": True})

    @property
    def url(self) -> str:
        return "http://{}:{}".format(*self.server.server_address)

    def answer_json(self, value, code: int = 200) -> None:
        self.answer(code, {"Content-Type": "application/json"}, json.dumps(value).encode())

    def answer(self, code: int, headers=None, content: bytes = b"", body: bool = True) -> None:
        self.send_response(code)
        for name, value in {**(headers or {}), "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, *_args) -> None:
        pass


def be_offline(monkeypatch, offline: bool = True) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
    getattr(utils, "reset_sessions", bool)()  # of older versions, which remember it


@contextmanager
def serving(monkeypatch, cache: Path):
    """A Hub that huggingface_hub uses in place of the real one, with an empty cache."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("OneHandler", (Handler,), {"hub": hub}))
    Thread(target=server.serve_forever, daemon=True).start()
    url = "http://{}:{}".format(*server.server_address)
    template = url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "ENDPOINT", url)
    for module in (constants, file_download):  # older versions have a copy there
        monkeypatch.setattr(module, "HUGGINGFACE_CO_URL_TEMPLATE", template, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    be_offline(monkeypatch, False)
    # Uploads through the Hub's plain protocol, not Xet's.
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True, raising=False)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("HF_ENDPOINT", url)  # of other processes
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
