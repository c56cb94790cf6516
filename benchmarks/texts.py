"""Texts and pages for benchmarks that get no files: those that come with Python."""

import ast
import gzip
import sysconfig
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from pydoc_data.topics import topics
from typing import Final

from clozeline.pipeline.text.normal_form import normalize

_LONGEST: Final = 20_000
_MENU: Final = "".join(f"<li><a href='/section/{n}' class='menu-item'>Section {n}</a></li>" for n in range(150))


def natural_texts() -> list[str]:
    """Return Python's help topics, the long docstrings of its library and its first modules, as they are stored."""
    modules = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    sources = [path.read_text(encoding="utf-8", errors="replace") for path in modules]
    docstrings = [text for source in sources for text in _docstrings(source) if len(text) > 300]
    texts = (normalize(text)[:_LONGEST] for text in (*topics.values(), *docstrings, *sources[:100]))
    return [text for text in texts if text]


def write_crawl(path: Path, size: int) -> None:
    """Write a WARC with at least `size` bytes of HTML: a text under a menu on each page, in turn."""
    written = 0
    with path.open("wb") as file:
        for text in cycle(natural_texts()):
            body = "".join(f"<p class='text'>{part}</p>" for part in text.split("\n\n"))
            page = f"<html><body><nav><ul>{_MENU}</ul></nav><main>{body}</main></body></html>".encode()
            payload = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n" + page
            head = "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://example.org/\r\n"
            head += f"Content-Type: application/http\r\nContent-Length: {len(payload)}\r\n\r\n"
            file.write(gzip.compress(head.encode() + payload + b"\r\n\r\n"))
            written += len(page)
            if written >= size:
                return


def _docstrings(source: str) -> Iterator[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield ast.get_docstring(node) or ""
