"""The columns of files of documents and of other rows between stages, as Arrow schemas.

They are not in `document.py`: checking a recipe does not need pyarrow.
"""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

DICTIONARY_TYPE: Final = pa.dictionary(pa.int32(), pa.utf8())
"""Arrow type of a string column with few distinct values."""


def row_schema(types: Mapping[str, pa.DataType], *optional: str) -> pa.Schema:
    """Return the schema of a file between stages; only the `optional` columns may hold nulls."""
    return pa.schema(
        [pa.field(name, type_, nullable=name in optional) for name, type_ in types.items()]
    )


DOCUMENT_SCHEMA: Final = row_schema(
    {
        "uid": pa.binary(16),
        "text": pa.utf8(),
        "target_text": pa.utf8(),
        "target_language": DICTIONARY_TYPE,
        "source": DICTIONARY_TYPE,
        "source_group": DICTIONARY_TYPE,
        "offset": pa.uint64(),
        "length": pa.uint64(),
        "url": pa.utf8(),
        "host": DICTIONARY_TYPE,
        "date": pa.timestamp("s", "UTC"),
        "language": DICTIONARY_TYPE,
        "language_score": pa.float32(),
        "content_hash": pa.binary(16),
        "n_chars": pa.uint32(),
        "n_words": pa.uint32(),
        "flags": pa.uint32(),
        "extra": pa.utf8(),
    },
    "target_text",
    "target_language",
    "url",
    "host",
    "date",
)
"""Columns of the documents between stages (`<stage>/documents/<unit:06d>.arrow`)."""
