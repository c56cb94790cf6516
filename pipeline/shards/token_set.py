"""Schemas of a token set: columns of its shards, of its document table, and of its token counts."""

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from clozeline.columns import IDS, Feature, Role
from clozeline.errors import IntegrityError
from clozeline.pipeline.shards import ColumnSpec, feature_columns
from clozeline.recorded_file import RecordedFile, find_file
from clozeline.repair import repair_of

DOCUMENTS_SCHEMA: Final = pa.schema(
    [
        pa.field("uid", pa.binary(16), nullable=False),
        pa.field("source", pa.utf8(), nullable=False),
        pa.field("offset", pa.uint64(), nullable=False),
        pa.field("length", pa.uint64(), nullable=False),
        pa.field("url", pa.utf8()),
        pa.field("language", pa.utf8(), nullable=False),
        pa.field("tokens", pa.uint32(), nullable=False),
    ]
)
"""Columns of `documents-*.arrow`: where each document of a token shard came from, in the shard's order."""

EXTRA_COLUMN: Final = pa.field("extra", pa.utf8())
"""Further column of `documents-*.arrow` where a recipe declares keys of `extra`: a JSON object of them, or null."""

TOKEN_COUNTS_FILE: Final = "token_counts.arrow"

TOKEN_COUNTS_SCHEMA: Final = pa.schema(
    [pa.field("id", pa.uint32(), nullable=False), pa.field("count", pa.uint64(), nullable=False)]
)
"""Columns of `token_counts.arrow`: how often each id occurs in the documents that are not held out."""

_TABLE_ROWS: Final = 1 << 16


_TEXT: Final = (
    Feature("token_ids", "ids", IDS, "the document's tokens"),
    Feature("sentence_starts", "uint32", Role("start", "token_ids"), "tokens at which sentences begin, first 0"),
)
_OTHER_SIDE: Final = (
    Feature("target_ids", "ids", IDS, "tokens of the other side of a pair; none where there is no other side"),
    Feature("target_language", "uint8", Role("row", below="languages"), "code of its language"),
)


WORD_STARTS: Final = Feature(
    "word_starts", "uint32", Role("start", "token_ids"), "tokens at which words begin, where segmenters found them"
)


def token_columns(vocab_size: int, *, pairs: bool = False, words: bool = False) -> list[ColumnSpec]:
    """Return the columns of a token shard; `pairs`: the set has aligned texts; `words`: segmenters found its words."""
    columns = [
        ColumnSpec("document_uid", "binary16", "fixed", "the document"),
        ColumnSpec("language", "uint8", "fixed", "code; names stand in the manifest"),
        ColumnSpec("source_group", "uint16", "fixed", "code of the input's label; names stand in the manifest"),
    ]
    features = (*_TEXT, *(_OTHER_SIDE if pairs else ()), *((WORD_STARTS,) if words else ()))
    return [*columns, *feature_columns(features, vocab_size)]


def identities(column: pa.ChunkedArray) -> NDArray[np.generic]:
    """Return uids as an array of bytes, shape [n, 16]."""
    return np.frombuffer(b"".join(column.to_pylist()), dtype=np.uint8).reshape(-1, 16)


def find_token_counts(manifest_path: Path) -> NDArray[np.uint64] | None:
    """Return the corpus's count of each id, from `encode/token_counts.arrow` in a folder above the manifest."""
    for folder in manifest_path.resolve().parents:
        path = folder / "encode" / TOKEN_COUNTS_FILE
        if path.is_file():
            content = find_file(path.parent, "manifest-000000", path.name).buffer()
            try:
                counts: NDArray[np.uint64] = pa.ipc.open_file(content).read_all()["count"].to_numpy()
            except (pa.ArrowException, KeyError) as error:
                raise IntegrityError(
                    f"{path}: not the token counts of a corpus ({error}); {repair_of(path)}"
                ) from error
            return counts
    return None


def document_table(path: Path) -> RecordedFile:
    """Return a file `documents-*.arrow`, to be compared with the record of its shard where the run is still there."""
    return find_file(path.parent, f"merge-{int(path.name.split('-')[1]):06d}", path.name)


def write_table(path: Path, table: pa.Table, schema: pa.Schema) -> int:
    """Write a plain Arrow file, zstd buffers, and return its number of rows; the bytes depend only on the rows."""
    plain = table.cast(schema)
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=3), use_threads=False)
    with path.open("wb") as file, pa.ipc.new_file(file, schema, options=options) as writer:
        writer.write_table(plain, max_chunksize=_TABLE_ROWS)
    return int(plain.num_rows)
