"""Hooks of mkdocs: pages may link to files of the repository outside of docs/.

Such a link works in the repository as it stands. On the site, what it points to lies below
repository/: Markdown and code as pages, a folder as a list, any other file as it is.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)[^)#\s]+")  # the path in [text](path#anchor)


def place(path: str) -> str:
    """Where a file or folder of the repository lies among the sources of the site."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    is_page = path.endswith(".py") or (ROOT / path).is_dir()
    return f"repository/{path}.md" if is_page else f"repository/{path}"


def resolve(page: str, link: str) -> str | None:
    """The path in the repository that a link on a page means; None if there is nothing."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
    return path if (ROOT / path).exists() else None


def for_the_site(page: str, markdown: str) -> str:
    """The page with its links as they are on the site."""

    def moved(link: re.Match[str]) -> str:
        path = resolve(page, link[0])
        here = posixpath.dirname(place(page)) or "."
        return link[0] if path is None else posixpath.relpath(place(path), here)

    return LINK.sub(moved, markdown)


def read(path: str) -> str:
    """The Markdown of a page; for a folder, a list of its files."""
    folder = ROOT / path
    if folder.is_dir():
        links = [
            f"- [{file.name}]({folder.name}/{file.name})" for file in sorted(folder.glob("*.*"))
        ]
        return "\n".join([f"# {path}", "", *links])
    return (ROOT / path).read_text(encoding="utf-8") if path.endswith(".md") else ""


def linked(pages: list[str]) -> set[str]:
    """What lies outside of docs/ and is linked to by these pages, or by what they link to."""
    found: set[str] = set()
    while pages:
        page = pages.pop()
        paths = {resolve(page, link) for link in LINK.findall(read(page))} - found - {None}
        new = {path for path in paths if path and not path.startswith("docs")}
        found |= new
        pages += new
    return found


def on_files(files: Any, config: Any) -> Any:
    """Add what the pages link to."""
    from mkdocs.structure.files import File  # only `make docs` has it

    for path in linked([f"docs/{page.src_uri}" for page in files.documentation_pages()]):
        uri = place(path)
        if path.endswith(".py"):
            code = (ROOT / path).read_text(encoding="utf-8")
            text = f"---\nsearch: {{exclude: true}}\n---\n# {path}\n\n````python\n{code}````\n"
            files.append(File.generated(config, uri, content=text))
        elif uri.endswith(".md"):
            files.append(File.generated(config, uri, content=for_the_site(path, read(path))))
        else:
            files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Change the links of a page of docs/; those below repository/ are changed already."""
    uri = page.file.src_uri
    return markdown if uri.startswith("repository/") else for_the_site(f"docs/{uri}", markdown)
