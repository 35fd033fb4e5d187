"""Parse the pages: fenced blocks, the commands in them, code spans and links."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]

# A fence at the start of a line, its language, its content.
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Command:
    page: str
    text: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[tuple[str, str]]:
    """The fenced blocks of a page in order: language and text."""
    return FENCE.findall(page.read_text(encoding="utf-8"))


def commands(page: Path) -> list[Command]:
    """One command per line of the `sh` blocks; continued lines joined, comments left out."""
    made = []
    for language, text in blocks(page):
        if language == "sh":
            for line in text.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                if words:
                    made.append(Command(name_of(page), " ".join(map(_quoted, words))))
    return made


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def spans(page: Path) -> list[str]:
    """`code` inside the text, line breaks as spaces."""
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose(page))]


def links(page: Path) -> list[str]:
    """Targets of [text](target) and ![text](target)."""
    return re.findall(r"\]\(([^)\s]+)\)", prose(page))


def _quoted(word: str) -> str:
    """Quoted where needed, but a glob stays one: the shell of the reader would expand it."""
    return word if re.fullmatch(r"[\w@%+=:,./*~-]+", word) else shlex.quote(word)
