"""The site that `make docs` makes of the pages."""

import ast
import importlib.util
import re
import sys
from functools import cache

import pytest

import aib
from aib.interpret import api
from tests.docs.blocks import ROOT, blocks, links
from tests.helpers import run_process
from tools.site import for_the_site, linked, place

DOCS = ROOT / "docs"
ERRORS = [text.strip() for _, text in blocks(DOCS / "troubleshooting.md")]
INSTALL = re.compile(r": pip install 'aib\[\w+\]'$")  # `missing_extra` adds it


@cache
def messages() -> list[re.Pattern[str]]:
    """The strings of the package; what is filled in may be anything."""
    found = []
    for path in (ROOT / "aib").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            texts = [part.value if isinstance(part, ast.Constant) else None for part in parts]
            fixed = "".join(text for text in texts if isinstance(text, str))
            if len(fixed) >= 15:
                pattern = "".join(re.escape(t) if isinstance(t, str) else ".+" for t in texts)
                found.append(re.compile(pattern))
    return found


@pytest.mark.parametrize("error", ERRORS)
def test_quoted_errors_are_those_of_the_package(error):
    text = INSTALL.sub("", error)
    assert any(pattern.fullmatch(text) for pattern in messages())


def test_the_reference_has_every_public_name():
    names = re.findall(r"^::: ([\w.]+)$", (DOCS / "api.md").read_text(), re.MULTILINE)
    assert {f"aib.{name}" for name in aib.__all__ if name != "__version__"} <= set(names)
    shown = {name.rpartition(".")[2] for name in names}
    assert set(api.__all__) <= shown and len(shown) == len(names)
    for name in names:
        module, _, leaf = name.rpartition(".")
        assert hasattr(importlib.import_module(module), leaf)


def test_the_gallery_shows_every_picture():
    shown = {target for target in links(DOCS / "gallery.md") if target.endswith((".png", ".jpg"))}
    assert shown == {path.name for path in DOCS.iterdir() if path.suffix in (".png", ".jpg")}


def test_every_page_is_in_the_navigation():
    named = set(re.findall(r": ([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert named == pages | {"repository/README.md"}


@pytest.mark.parametrize(
    ("page", "link", "expected"),
    [
        ("docs/method.md", "data.md#masks", "data.md#masks"),
        ("docs/method.md", "../aib/models/loss.py", "repository/aib/models/loss.py.md"),
        ("docs/method.md", "../aib/models/backbones", "repository/aib/models/backbones.md"),
        ("docs/method.md", "../README.md#start", "repository/README.md#start"),
        ("docs/results/svhn.md", "../../results/svhn.json", "../repository/results/svhn.json"),
        ("README.md", "docs/data.md#masks", "../data.md#masks"),
        ("README.md", "docs/shapes.png", "../shapes.png"),
        ("README.md", "aib/models/bottleneck.py", "aib/models/bottleneck.py.md"),
        ("aib/models/backbones", "backbones/vgg.py", "backbones/vgg.py.md"),
        ("docs/method.md", "https://example.com/a.md", "https://example.com/a.md"),
        ("docs/method.md", "../missing.md", "../missing.md"),  # mkdocs reports it
    ],
)
def test_links_are_moved_with_their_targets(page, link, expected):
    assert for_the_site(page, f"see [it]({link}), x[0](y)") == f"see [it]({expected}), x[0](y)"


def test_what_is_linked_becomes_part_of_the_site():
    found = linked(["docs/method.md"])
    assert {"aib/models/loss.py", "aib/models/backbones", "aib/models/backbones/vgg.py"} <= found
    assert not any(path.startswith("docs/") for path in found)
    assert len({place(path) for path in found}) == len(found)


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("mkdocs"), reason="needs the extra `docs`")
def test_the_site_is_built_and_loads_nothing_from_elsewhere(tmp_path):
    words = ("-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path)
    run_process(sys.executable, *words, cwd=ROOT)
    assert "aib.interpret.study" in (tmp_path / "api.html").read_text()
    for page in tmp_path.rglob("*.html"):
        tags = re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", page.read_text())
        assert not [tag for tag in tags if re.search(r"(?:src|href)=\"?(?:https?:)?//", tag)]
