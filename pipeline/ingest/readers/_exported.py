"""Restore documents from the rows that `clozeline export-documents` wrote.

The columns of the document that the row has stay as they are, so that programs may change texts,
add columns or leave some out. Hash and counts of the text are computed again.
"""

import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.ingest.formats.dates import parse_date
from clozeline.pipeline.ingest.formats.portable_json import (
    JSON_DECODER,
    limit_extra,
    repair_surrogates,
    to_portable_json,
)
from clozeline.pipeline.ingest.readers import RawRecord, SkippedRecord

BAD_DOCUMENT: Final = "bad_document"


def restore_document(record: RawRecord, row: Mapping[str, Any]) -> RawRecord | SkippedRecord:
    """Return the record of a row with the stored columns of its document.

    Columns that no document has go to `extra`. A column with an unusable value, or a row without a
    uid, is malformed.
    """
    stored: dict[str, Any] = {}

    for name, (read, expected) in _COLUMNS.items():
        value = row.get(name)
        if value in (None, "") and name != "uid":
            continue
        try:
            stored[name] = read(value)
        except (ValueError, TypeError, AttributeError, RecursionError):
            why = f"{name}: expected {expected}"
            return SkippedRecord("malformed", BAD_DOCUMENT, record.locator, detail=why)

    others = {name: value for name, value in row.items() if name not in Document.__slots__}
    extra = {**stored.get("extra", {}), **(limit_extra(others) if others else {})}
    stored |= {"extra": extra, "flags": stored.get("flags", 0) | record.flags}
    return record._replace(extra=extra, stored=stored)


def _read_uid(value: Any) -> bytes:
    uid = value if isinstance(value, bytes) else bytes.fromhex(value)
    if len(uid) != 16:
        raise ValueError
    return uid


def _read_integer(value: Any, bits: int) -> int:
    # a table of text holds digits
    number = int(value) if isinstance(value, str) else operator.index(value)
    if not 0 <= number < 1 << bits:
        raise ValueError
    return number


def _read_score(value: Any) -> float:
    if not 0 <= (score := float(value)) <= 1:
        raise ValueError
    return score


def _read_date(value: object) -> int:
    if (date := parse_date(value)) is None:
        raise ValueError
    return date


def _read_object(value: Any) -> dict[str, Any]:
    fields = JSON_DECODER.decode(value) if isinstance(value, str) else value
    portable: dict[str, Any] = to_portable_json(dict(fields))
    return portable


_TEXT: Final = (repair_surrogates, "a text")
_LONG: Final = (partial(_read_integer, bits=64), "an integer of 64 bits, 0 or more")
_COLUMNS: Final[Mapping[str, tuple[Callable[[Any], Any], str]]] = {
    "uid": (_read_uid, "16 bytes or 32 hexadecimal digits"),
    "source": _TEXT,
    "source_group": _TEXT,
    "offset": _LONG,
    "length": _LONG,
    "date": (_read_date, "an ISO date, or seconds since 1970"),
    "language": _TEXT,
    "language_score": (_read_score, "a number from 0 to 1"),
    "flags": (partial(_read_integer, bits=32), "an integer of 32 bits, 0 or more"),
    "target_text": _TEXT,
    "target_language": _TEXT,
    "extra": (_read_object, "an object, or one written as JSON"),
}
"""Columns of a document that are not computed from others: how to read a value, and what it is."""
