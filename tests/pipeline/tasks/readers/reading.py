"""Task readers on files that tests write, and on published ones where they are."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.tasks.readers import Rejected, TaskReader
from clozeline.registry import choose

__all__ = ["items_of", "published", "reader_of", "reasons", "with_data", "written"]


def reader_of(name: str, **options: Any) -> TaskReader:
    reader: TaskReader = choose("clozeline.pipeline.tasks.readers", {"name": name, **options}).build(Limits())
    return reader


def items_of(reader: TaskReader, path: Path) -> list[Any]:
    """The rows of a file."""
    return list(reader.read(reader.open(path)))


def written(folder: Path, text: str | bytes, name: str = "rows.txt") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def reasons(items: list[Any]) -> dict[str, int]:
    return dict(Counter(item.reason for item in items if isinstance(item, Rejected)))


def published(relative: str) -> Path:
    """A file below `tasks` of the folder that CLOZELINE_DATA names."""
    return Path(os.environ["CLOZELINE_DATA"]) / "tasks" / relative


with_data = pytest.mark.skipif(
    "CLOZELINE_DATA" not in os.environ, reason="CLOZELINE_DATA names no folder of real files"
)
