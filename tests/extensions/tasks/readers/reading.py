"""Task readers on files that tests write."""

import json
from collections import Counter
from types import SimpleNamespace

from clozeline.extensions.tasks.readers import Rejected
from clozeline.extensions.tasks.registries import TASK_READERS
from clozeline.extensions.tasks.rows import rows_of
from clozeline.extensions.tasks.sets.task_rows import FRAMES, Form
from clozeline.pipeline.ingest.formats.limits import InputLimits

__all__ = ["items_of", "json_lines", "read", "reader_of", "reasons", "rows_for", "written"]


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


def rows_for(metadata):
    """Return the builder of rows of a task, without a tokenizer."""
    architecture = "decoder" if metadata.head == "lm" else "encoder"
    tokenizer = SimpleNamespace(vocabulary=SimpleNamespace(specials={}))
    form = Form(FRAMES["bert"], 16)
    return rows_of(metadata.head, architecture)(metadata, form, tokenizer, "c", "s")
