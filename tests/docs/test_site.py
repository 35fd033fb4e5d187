"""Links lead somewhere, every page is in the navigation, and the site builds."""

import importlib
import importlib.util
import re
import sys

import pytest

import aib
from aib.interpret import api
from tests.docs.blocks import PAGES, ROOT, blocks, links, name_of
from tests.helpers import run_process
from tools.site import for_the_site

DOCS = ROOT / "docs"
page_of = pytest.mark.parametrize("page", PAGES, ids=name_of)


def slug(heading: str) -> str:
    """As GitHub makes anchors of headings."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


@page_of
def test_relative_links_resolve(page):
    for target in links(page):
        if re.match(r"\w+:", target):  # https: and the like
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists() and there.is_relative_to(ROOT), f"{name_of(page)}: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", there.read_text(), re.MULTILINE)
            assert anchor in map(slug, headings), f"{name_of(page)}: no heading for {target}"


@page_of
def test_every_block_says_what_it_is(page):
    """A block without a language would escape the tests of commands and of Python."""
    assert page.read_text().count("\n```") == 2 * len(blocks(page))
    assert {language for language, _ in blocks(page)} <= {"sh", "python", "text"}


def test_every_page_is_in_the_navigation_and_in_the_index():
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    named = set(re.findall(r": ([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    assert named == pages | {"repository/README.md"}
    listed = {target for target in links(DOCS / "README.md") if target.endswith(".md")}
    assert listed == {p for p in pages if "/" not in p} - {"README.md"} | {
        "results/README.md",
        "../README.md",
    }


def test_the_reference_has_every_public_name():
    names = re.findall(r"^::: ([\w.]+)$", (DOCS / "api.md").read_text(), re.MULTILINE)
    assert {f"aib.{name}" for name in aib.__all__ if name != "__version__"} <= set(names)
    assert set(api.__all__) <= {name.rpartition(".")[2] for name in names}
    for name in names:
        module, _, leaf = name.rpartition(".")
        assert hasattr(importlib.import_module(module), leaf), name


@pytest.mark.parametrize(
    ("page", "link", "expected"),
    [
        ("docs/method.md", "data.md#masks", "data.md#masks"),
        ("docs/method.md", "../aib/models/loss.py", "repository/aib/models/loss.py.md"),
        ("docs/results/svhn.md", "../../results/svhn.json", "../repository/results/svhn.json"),
        ("docs/method.md", "https://example.com/a.md", "https://example.com/a.md"),
        ("docs/method.md", "../missing.md", "../missing.md"),  # mkdocs reports it
    ],
)
def test_links_are_moved_with_their_targets(page, link, expected):
    assert for_the_site(page, f"see [it]({link}), x[0](y)") == f"see [it]({expected}), x[0](y)"


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("mkdocs"), reason="needs the extra `docs`")
def test_the_site_is_built_and_loads_nothing_from_elsewhere(tmp_path):
    words = ("-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path)
    run_process(sys.executable, *words, cwd=ROOT)
    assert "aib.interpret.study" in (tmp_path / "api.html").read_text()
    for page in tmp_path.rglob("*.html"):
        tags = re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", page.read_text())
        assert not [tag for tag in tags if re.search(r"(?:src|href)=\"?(?:https?:)?//", tag)]
