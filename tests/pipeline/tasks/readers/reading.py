"""Task readers on files that tests write, and on published ones where they are."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.tasks.readers import Rejected
from clozeline.registry import choose

__all__ = ["items_of", "json_lines", "published", "read", "reader_of", "reasons", "with_data", "written"]


def reader_of(name, **options):
    return choose("clozeline.pipeline.tasks.readers", {"name": name, **options}).build(Limits())


def items_of(reader, path):
    """The rows of a file."""
    return list(reader.read(reader.open(path)))


def read(folder, text, name, **options):
    """The rows that a reader finds in a text."""
    return items_of(reader_of(name, **options), written(folder, text))


def written(folder, text, name="rows.txt"):
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def json_lines(*rows):
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def reasons(items):
    return dict(Counter(item.reason for item in items if isinstance(item, Rejected)))


def published(relative):
    """A file below `tasks` of the folder that CLOZELINE_DATA names."""
    return Path(os.environ["CLOZELINE_DATA"]) / "tasks" / relative


with_data = pytest.mark.skipif(
    "CLOZELINE_DATA" not in os.environ, reason="CLOZELINE_DATA names no folder of real files"
)
