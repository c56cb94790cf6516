"""Texts and pages for benchmarks that get no files: those that come with Python."""

import ast
import json
import sysconfig
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from pydoc_data.topics import topics
from typing import Final

from clozeline.pipeline.text.normal_form import normalize
from clozeline.tools.start.multirun.python_pages import write_warc

_LONGEST: Final = 20_000
_MENU: Final = "".join(
    f"<li><a href='/section/{n}' class='menu-item'>Section {n}</a></li>" for n in range(150)
)


def natural_texts(file: Path | None = None) -> list[str]:
    """Return the column `text` of a JSONL file, or texts of Python.

    These are help topics, long docstrings, and the first modules.
    """
    if file is not None:
        return [json.loads(line)["text"] for line in file.read_bytes().splitlines()]
    modules = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    sources = [path.read_text(encoding="utf-8", errors="replace") for path in modules]
    docstrings = [text for source in sources for text in _docstrings(source) if len(text) > 300]
    texts = (normalize(text)[:_LONGEST] for text in (*topics.values(), *docstrings, *sources[:100]))
    return [text for text in texts if text]


def write_crawl(path: Path, size: int) -> None:
    """Write a WARC with at least `size` characters of HTML.

    Each page has a text under a menu; the texts take turns.
    """
    write_warc(path, _pages(size))


def _pages(size: int) -> Iterator[tuple[str, str]]:
    for number, text in enumerate(cycle(natural_texts())):
        body = "".join(f"<p class='text'>{part}</p>" for part in text.split("\n\n"))
        page = f"<html><body><nav><ul>{_MENU}</ul></nav><main>{body}</main></body></html>"
        yield f"http://example.org/{number}", page
        size -= len(page)
        if size <= 0:
            return


def _docstrings(source: str) -> Iterator[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield ast.get_docstring(node) or ""
