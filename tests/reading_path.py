"""Count the lines of the reading path in docs/how-it-works.md: `python -m tests.reading_path`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "how-it-works.md"


class Step(NamedTuple):
    """A file of the path, and the definitions to read in it; none: the complete file."""

    file: str
    names: tuple[str, ...]


def reading_path() -> list[Step]:
    """Return the steps of the page's table: the first cell with code is the file, the next one has the names."""
    table = re.findall(r"^\| \d+ \| `([\w/.]+)` \| (.*?) \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [Step(file, tuple(re.findall(r"`([\w.]+)`", cell))) for file, cell in table]


def count_lines(step: Step) -> int:
    """Return the number of lines to read.

    Raises:
        LookupError: the file has no definition of such a name.
    """
    source = (ROOT / step.file).read_text(encoding="utf-8")
    if not step.names:
        return len(source.splitlines())
    spans = dict(_definitions(ast.parse(source).body, ""))
    if missing := set(step.names) - spans.keys():
        raise LookupError(f"{step.file} defines no {', '.join(sorted(missing))}")
    return sum(spans[name] for name in step.names)


def _definitions(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, int]]:
    for node in body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.end_lineno is not None:
            yield prefix + node.name, node.end_lineno - node.lineno + 1
            yield from _definitions(node.body, f"{prefix}{node.name}.")


if __name__ == "__main__":
    path = reading_path()
    for step in path:
        print(f"{count_lines(step):5}  {step.file}  {', '.join(step.names)}")
    print(f"{sum(map(count_lines, path)):5}  lines in {len({step.file for step in path})} files")
