"""Add pages outside docs/ and a Python reference to the documentation site.

mkdocs calls these hooks. The pages keep the links that work in a checkout; here they become links
of the site.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

_ROOT: Final = Path(__file__).resolve().parents[2]
_DOCS: Final = "docs"
# Files outside docs/ that are pages of the site.
_OUTSIDE: Final = {
    "README.md": "start.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    **{
        file: file.replace("/README.md", ".md")
        for path in _ROOT.glob("extensions/*/*.md")
        for file in [path.relative_to(_ROOT).as_posix()]
    },
}
_FILES_BY_PAGE: Final = {page: file for file, page in _OUTSIDE.items()}
# Pages whose Python blocks import the public names.
_PAGES_WITH_PYTHON: Final = ("docs/python.md", "README.md")
_REFERENCE: Final = "api.md"
_FENCED: Final = re.compile(r"(^```.*?^```$)", flags=re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#:]+)(#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not files of docs/."""
    from mkdocs.structure.files import File

    for file, page in _OUTSIDE.items():
        text = (_ROOT / file).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, _REFERENCE, content=write_reference(public_names())))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn the links of a checkout into links of the site."""
    source = page.file.src_uri
    return move_links(markdown, _FILES_BY_PAGE.get(source, f"{_DOCS}/{source}"), source)


def move_links(markdown: str, file: str, page: str) -> str:
    """Return the text of a file of the repository with links as they are from `page` of the site.

    A link to code becomes its text. A broken link stays, so that mkdocs reports it.

    Args:
        markdown: text of the page.
        file: path of the file that holds the text, relative to the root of the repository.
        page: path of its page, relative to docs/.
    """

    def move(match: re.Match[str]) -> str:
        text = match[1]
        target = match[2]
        anchor = match[3] or ""

        linked = posixpath.normpath(posixpath.join(posixpath.dirname(file), target))
        if not (_ROOT / linked).exists():
            return match[0]
        if (_ROOT / linked).is_dir() and linked.startswith(_DOCS):
            linked = min(
                path.relative_to(_ROOT).as_posix() for path in (_ROOT / linked).glob("*.md")
            )

        inside = _OUTSIDE.get(linked) or (
            linked.removeprefix(f"{_DOCS}/") if linked.startswith(f"{_DOCS}/") else ""
        )
        return (
            f"[{text}]({posixpath.relpath(inside, posixpath.dirname(page) or '.')}{anchor})"
            if inside
            else text
        )

    parts = _FENCED.split(markdown)
    return "".join(
        part if number % 2 else _LINK.sub(move, part) for number, part in enumerate(parts)
    )


def public_names() -> list[str]:
    """Return the dotted names of Clozeline that Python blocks import, in the order of the pages."""
    imported: dict[str, None] = {}
    for file in _PAGES_WITH_PYTHON:
        for block in re.findall(
            r"^```python\n(.*?)^```$", (_ROOT / file).read_text(encoding="utf-8"), re.M | re.S
        ):
            for module, names in re.findall(r"^from (clozeline[\w.]*) import (.+)$", block, re.M):
                imported |= dict.fromkeys(f"{module}.{name.strip()}" for name in names.split(","))
    return list(imported)


def write_reference(names: list[str]) -> str:
    """Return the page that mkdocstrings fills with the signatures and docstrings of these names."""
    head = (
        "# Python reference\n\nThe names that [From Python](python.md) and the [README](start.md) "
        "import.\n"
    )
    return "\n".join([head, *(f"::: {name}\n" for name in names)])
