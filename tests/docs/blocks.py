"""Parse the pages: fenced blocks, the commands in them, and links."""

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[tuple[str, str]]:
    """The fenced blocks of a page in order: language and text."""
    return FENCE.findall(page.read_text(encoding="utf-8"))


def commands(page: Path) -> list[str]:
    """One command per line of the `sh` blocks; continued lines joined, comments left out."""
    text = "".join(text for language, text in blocks(page) if language == "sh")
    lines = text.replace("\\\n", " ").splitlines()
    return [
        " ".join(_quoted(word) for word in words)
        for words in (shlex.split(line, comments=True) for line in lines)
        if words
    ]


def links(page: Path) -> list[str]:
    """Targets of [text](target) and ![text](target)."""
    return re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", page.read_text(encoding="utf-8")))


def _quoted(word: str) -> str:
    """Quoted where needed, but a glob stays one: the shell of the reader would expand it."""
    return word if re.fullmatch(r"[\w@%+=:,./*~-]+", word) else shlex.quote(word)
