"""Describe the documents that rows were cut from.

Source, URL, id and declared metadata come from the tables of `encode`.
"""

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.shards import ShardSet, open_shards
from clozeline.tools.shards.provenance.document_table import find_documents
from clozeline.tools.shards.provenance.packed_documents import packing_of, sample_manifest
from clozeline.tools.shards.provenance.row_search import PAIR_LABEL, PARTNER, find_rows, has_partner

BlockRow: TypeAlias = tuple[int, int]
"""Block number over all shards, and row in the block."""


def documents_of(
    shards: ShardSet, stored: Mapping[BlockRow, RowBatch]
) -> dict[BlockRow, list[dict[str, Any]]]:
    """Return the documents of each row, in order, with their sources where known.

    Of a packed row whose packing is unknown, only the first document.
    """
    packing = packing_of(shards) if stored else None
    uids = {
        at: [rows.fixed["document_uid"].tobytes()]
        if packing is None
        else packing.documents(rows)[0]
        for at, rows in stored.items()
    }
    lines = find_documents(shards.path, {uid for row_uids in uids.values() for uid in row_uids})
    return {at: [_origin(uid, lines.get(uid)) for uid in row_uids] for at, row_uids in uids.items()}


def partners_of(
    shards: ShardSet, stored: Mapping[BlockRow, RowBatch]
) -> dict[BlockRow, dict[str, Any]]:
    """Return the document of each pair's second segment, unless its label says "same document"."""
    samples = sample_manifest(shards)
    if samples is None or not has_partner(samples[1].columns):
        return {}
    source = open_shards(samples[0])
    uids = {}

    for at, rows in stored.items():
        if PAIR_LABEL in rows.columns and not rows.columns[PAIR_LABEL].values[0]:
            continue
        for sample in find_rows(source, int(rows.fixed["uid"][0]))[:1]:
            uids[at] = (
                source.read_block(sample.block, columns=(PARTNER,))
                .columns[PARTNER][sample.row]
                .tobytes()
            )

    lines = find_documents(shards.path, set(uids.values()))
    return {at: {"partner": _origin(uid, lines.get(uid))} for at, uid in uids.items()}


def describe_origin(document: Mapping[str, Any]) -> str:
    """Return source, offset, URL, id and metadata as a suffix for a document's name.

    "" if unknown.
    """
    if "source" not in document:
        return ""
    url = f", {document['url']}" if document["url"] else ""
    metadata: Mapping[str, str] = document.get("metadata") or describe_record(document)
    named = "".join(f", {name} {value}" for name, value in metadata.items())
    return (
        f": {document['source']}, record at "
        f"{document.get('source_offset', document.get('offset')):,}{url}{named}"
    )


def describe_record(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the `id` of a document's record, if it has one, and the metadata of `encode.extra`."""
    declared = json.loads(document.get("extra") or "{}")
    identity = document.get("id")
    values = declared if identity is None else {"id": identity, **declared}
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in values.items()
    }


def storage_location(shards: ShardSet, block: int, row: int) -> dict[str, object]:
    """Return shard, block in the shard and row in the block, for a block number over all shards."""
    path = shards.manifest.shards[int(shards.index.shard[block])].path
    return {"shard": path, "block": int(shards.index.block[block]), "row": row}


def _origin(uid: bytes, line: dict[str, object] | None) -> dict[str, object]:
    origin: dict[str, object] = {"document": uid.hex()}
    if line is not None:
        origin |= {"source": line["source"], "source_offset": line["offset"], "url": line["url"]}
        if metadata := describe_record(line):
            origin["metadata"] = metadata
    return origin
