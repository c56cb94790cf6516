"""Task readers on files that tests write."""

import json
from collections import Counter

from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.registries import TASK_READERS
from clozeline.pipeline.tasks.readers import Rejected

__all__ = ["items_of", "json_lines", "read", "reader_of", "reasons", "written"]


def reader_of(name, **options):
    return TASK_READERS.resolve({"name": name, **options}).build(InputLimits())


def items_of(reader, path):
    return list(reader.read(reader.open(path)))


def read(folder, text, name, **options):
    return items_of(reader_of(name, **options), written(folder, text))


def written(folder, text, name="rows.txt"):
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def json_lines(*rows):
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def reasons(items):
    return dict(Counter(item.reason for item in items if isinstance(item, Rejected)))
