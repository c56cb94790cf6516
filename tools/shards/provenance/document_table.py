"""Look up documents in the tables `encode/documents-*.arrow` of a run: source, offset and URL by document uid."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from clozeline.errors import IntegrityError
from clozeline.pipeline.ingest.documents.files import Rejection, read_rejects
from clozeline.pipeline.shards import Manifest
from clozeline.pipeline.shards.layout import shard_of
from clozeline.pipeline.shards.token_set import document_table
from clozeline.repair import repair_of


def uid_keys(uids: NDArray[Any]) -> NDArray[np.bytes_]:
    """Return uids [n, 16] as one 16-byte value each, [n]; equal lengths make trailing zeros harmless."""
    keys: NDArray[np.bytes_] = np.ascontiguousarray(uids).view("S16")[:, 0]
    return keys


def document_tables(manifest_path: Path) -> list[Path]:
    """Return the document tables above a set, one per token shard, in shard order."""
    for folder in manifest_path.resolve().parents:
        tables = {shard.with_name(f"documents{shard.stem[5:]}.arrow") for shard in (folder / "encode").glob("shard-*")}
        tables |= {*(folder / "encode").glob("documents-*.arrow")}  # also of a shard that is missing
        if missing := [path for path in sorted(tables) if not path.is_file()]:
            raise IntegrityError(f"{missing[0]}: the document table is missing; {repair_of(missing[0])}")
        if tables:
            return sorted(tables)
    return []


def find_documents(manifest_path: Path, uids: Collection[bytes]) -> dict[bytes, dict[str, Any]]:
    """Return source, offset, length and URL by document uid, for the documents that a table above the set lists."""
    documents: dict[bytes, dict[str, object]] = {}
    for path in _likely_first(document_tables(manifest_path), uids):
        missing = set(uids) - documents.keys()
        if not missing:
            break
        known = pa.array(list(missing), pa.binary(16))
        for batch in _batches(path, "uid"):
            lines = batch.filter(pc.is_in(batch.column("uid"), value_set=known)).to_pylist()
            documents |= {line["uid"]: line for line in lines}
    return documents


def _likely_first(tables: list[Path], uids: Collection[bytes]) -> list[Path]:
    """Return all tables, first those that have documents with these uids unless the set was rewritten."""
    if not tables or not (manifest := tables[0].parent / "manifest.json").is_file():
        return tables
    seed = Manifest.load(manifest).seed
    likely = {shard_of(uid, len(tables), seed) for uid in uids}
    numbers = sorted(range(len(tables)), key=lambda number: number not in likely)
    return [tables[number] for number in numbers]


def documents_at(manifest_path: Path, url: str) -> dict[bytes, dict[str, object]]:
    """Return documents by uid whose URL is `url`, or starts with it where `url` ends with `*`."""
    documents: dict[bytes, dict[str, object]] = {}
    for path in document_tables(manifest_path):
        for batch in _batches(path, "url"):
            urls = batch.column("url")
            matches = pc.starts_with(urls, url[:-1]) if url.endswith("*") else pc.equal(urls, url)
            documents |= {line["uid"]: line for line in batch.filter(pc.fill_null(matches, False)).to_pylist()}
    return documents


def rejections_at(manifest_path: Path, url: str) -> list[Rejection]:
    """Return the documents with this URL, as in `documents_at`, that a stage of the run above a set rejected."""
    files = {file for table in document_tables(manifest_path) for file in table.parents[1].glob("*/rejects/*.arrow")}
    rejections = (rejection for file in sorted(files) for rejection in read_rejects(file))
    if url.endswith("*"):
        return [rejection for rejection in rejections if (rejection.url or "").startswith(url[:-1])]
    return [rejection for rejection in rejections if rejection.url == url]


def read_table(path: Path, columns: Collection[str]) -> pa.Table:
    """Return some columns of a document table, in file order."""
    batches = [batch.select(list(columns)) for batch in _batches(path, *columns)]
    return pa.Table.from_batches(batches) if batches else pa.table({name: [] for name in columns})


def _batches(path: Path, *columns: str) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of a table, which must have these columns."""
    try:
        with pa.ipc.open_file(document_table(path).buffer()) as reader:
            for index in range(reader.num_record_batches):
                batch = reader.get_batch(index)
                missing = ", ".join(set(columns) - set(batch.schema.names))
                if missing:
                    raise IntegrityError(f"{path}: not a document table (no {missing}); {repair_of(path)}")
                yield batch
    except pa.ArrowException as error:
        raise IntegrityError(f"{path}: not a document table ({error}); {repair_of(path)}") from error
