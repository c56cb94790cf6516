"""The tables `encode/documents-*.arrow` of the run that a set belongs to: source, offset and address of documents."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from clozeline.errors import IntegrityError
from clozeline.pipeline.shards.token_set import document_table
from clozeline.repair import repair_of


def uid_keys(uids: NDArray[Any]) -> NDArray[np.bytes_]:
    """Return uids [n, 16] as one value each, [n]; all have 16 bytes, so trailing zeros do not matter."""
    keys: NDArray[np.bytes_] = np.ascontiguousarray(uids).view("S16")[:, 0]
    return keys


def document_tables(manifest_path: Path) -> list[Path]:
    """Return the tables of documents above a set, in the order of the token shards, one of which each belongs to.

    Raises:
        IntegrityError: a token shard is there without its table.
    """
    for folder in manifest_path.resolve().parents:
        found = [shard.with_name(f"documents{shard.stem[5:]}.arrow") for shard in (folder / "encode").glob("shard-*")]
        if missing := [path for path in sorted(found) if not path.is_file()]:
            raise IntegrityError(f"{missing[0]}: the table of documents is missing; {repair_of(missing[0])}")
        if found:
            return sorted(found)
    return []


def find_documents(manifest_path: Path, uids: Collection[bytes]) -> dict[bytes, dict[str, Any]]:
    """Return source, offset, length and url by document uid, of the documents that are in a table above the set.

    Args:
        manifest_path: of the set.
        uids: document uids, 16 bytes each.

    Raises:
        IntegrityError: a file of that name is not a table of documents.
    """
    found: dict[bytes, dict[str, Any]] = {}
    for path in document_tables(manifest_path):
        wanted = set(uids) - found.keys()
        if not wanted:
            break
        known = pa.array(list(wanted), pa.binary(16))
        for batch in _batches(path, "uid"):
            lines = batch.filter(pc.is_in(batch.column("uid"), value_set=known)).to_pylist()
            found |= {line["uid"]: line for line in lines}
    return found


def documents_at(manifest_path: Path, url: str) -> dict[bytes, dict[str, Any]]:
    """Return documents by uid whose address is `url`; with a `*` at its end, whose address begins with it.

    Raises:
        IntegrityError: a file of that name is not a table of documents.
    """
    found: dict[bytes, dict[str, Any]] = {}
    for path in document_tables(manifest_path):
        for batch in _batches(path, "url"):
            urls = batch.column("url")
            chosen = pc.starts_with(urls, url[:-1]) if url.endswith("*") else pc.equal(urls, url)
            found |= {line["uid"]: line for line in batch.filter(pc.fill_null(chosen, False)).to_pylist()}
    return found


def read_table(path: Path, columns: Collection[str]) -> pa.Table:
    """Return some columns of a table of documents, in its order."""
    batches = [batch.select(list(columns)) for batch in _batches(path, *columns)]
    return pa.Table.from_batches(batches) if batches else pa.table({name: [] for name in columns})


def _batches(path: Path, *columns: str) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a table that must have these columns."""
    try:
        with pa.ipc.open_file(document_table(path).buffer()) as reader:
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                missing = ", ".join(set(columns) - set(batch.schema.names))
                if missing:
                    raise IntegrityError(f"{path}: not a table of documents (no {missing}); {repair_of(path)}")
                yield batch
    except pa.ArrowException as error:
        raise IntegrityError(f"{path}: not a table of documents ({error}); {repair_of(path)}") from error
