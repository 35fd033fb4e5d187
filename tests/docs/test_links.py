"""Links, file names and options that the pages mention exist."""

import re
from contextlib import redirect_stdout
from functools import cache
from io import StringIO

import pytest

from aib.cli import COMMANDS, main
from tests.docs.blocks import PAGES, ROOT, blocks, links, name_of, spans

LANGUAGES = {"sh", "python", "text"}
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
        assert there.exists(), f"{name_of(page)} links to {target}"
        assert there.is_relative_to(ROOT), f"{name_of(page)} links out of the project: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", there.read_text(), re.MULTILINE)
            assert anchor in map(slug, headings), f"{name_of(page)}: no heading for {target}"


def test_the_index_lists_every_page():
    listed = {target for target in links(ROOT / "docs" / "README.md") if target.endswith(".md")}
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert listed == pages | {"results/README.md"}


@page_of
def test_every_block_says_what_it_is(page):
    """A block without a language would escape the tests of commands and of Python."""
    assert page.read_text().count("\n```") == 2 * len(blocks(page))
    assert {language for language, _ in blocks(page)} <= LANGUAGES


@page_of
def test_files_named_in_the_text_exist(page):
    names = [s for s in spans(page) if re.fullmatch(r"[\w/]+/[\w/]+\.(py|md|json)", s)]
    for name in names:
        places = (ROOT / name, ROOT / "aib" / name, page.parent / name)
        assert any(path.exists() for path in places), f"{name_of(page)} speaks of {name}"


@cache
def help_of(*command: str) -> str:
    with redirect_stdout(StringIO()) as out:
        assert main([*command, "--help"]) == 0
    return out.getvalue()


@page_of
def test_commands_named_in_the_text_have_the_options_named(page):
    for span in spans(page):
        words = span.split()
        if words[0] != "aib" or len(words) == 1 or not words[1].isalpha() or words[1].isupper():
            continue
        assert words[1] in COMMANDS, f"{name_of(page)}: `{span}`"
        options = [word.partition("=")[0] for word in words if word.startswith("--")]
        sub = [words[2]] if words[1] in ("data", "bench") and len(words) > 2 else []
        if options and options != ["--help"]:
            known = help_of(words[1], *sub)
            assert all(option in known for option in options), f"{name_of(page)}: `{span}`"
