"""The documents that rows were cut from, with source and address from the tables of `encode`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from clozeline.pipeline.rows import Rows
from clozeline.pipeline.shards import ShardSet, open_shards
from clozeline.tools.shards.provenance.document_table import find_documents
from clozeline.tools.shards.provenance.packed_documents import packing_of, sample_manifest
from clozeline.tools.shards.provenance.row_search import PAIR_LABEL, PARTNER, find_rows

BlockRow: TypeAlias = tuple[int, int]
"""Number of a block, over all shards, and row in it."""


def documents_of(shards: ShardSet, stored: Mapping[BlockRow, Rows]) -> dict[BlockRow, list[dict[str, Any]]]:
    """Return the documents of each row, in their order, with their sources where known.

    A packed row whose packing is unknown gives its first document only.
    """
    packing = packing_of(shards) if stored else None
    uids = {
        at: [rows.fixed["document_uid"].tobytes()] if packing is None else packing.documents(rows)[0]
        for at, rows in stored.items()
    }
    lines = find_documents(shards.path, {uid for found in uids.values() for uid in found})
    return {at: [_origin(uid, lines.get(uid)) for uid in found] for at, found in uids.items()}


def partners_of(shards: ShardSet, stored: Mapping[BlockRow, Rows]) -> dict[BlockRow, dict[str, Any]]:
    """Return the document of the second half of each pair, unless its label says that it is the first one's.

    The samples name that document; examples do not.
    """
    grouping, samples = shards.manifest.grouping, sample_manifest(shards)
    if grouping is None or samples is None or not grouping.options.get("partner"):
        return {}
    source, uids = open_shards(samples[0]), {}
    for at, rows in stored.items():
        if PAIR_LABEL in rows.columns and not rows.columns[PAIR_LABEL].values[0]:
            continue
        for found in find_rows(source, int(rows.fixed["uid"][0]))[:1]:
            uids[at] = source.read_block(found.block, columns=(PARTNER,)).columns[PARTNER][found.row].tobytes()
    lines = find_documents(shards.path, set(uids.values()))
    return {at: {"partner": _origin(uid, lines.get(uid))} for at, uid in uids.items()}


def describe_origin(document: Mapping[str, Any]) -> str:
    """Return source, offset and address to write after the name of a document; "" where they are unknown."""
    if "source" not in document:
        return ""
    url = f", {document['url']}" if document["url"] else ""
    return f": {document['source']}, record at {document.get('source_offset', document.get('offset')):,}{url}"


def stored_at(shards: ShardSet, block: int, row: int) -> dict[str, Any]:
    """Return shard, block in it, and row in the block; `block` counts over all shards."""
    path = shards.manifest.shards[int(shards.index.shard[block])].path
    return {"shard": path, "block": int(shards.index.block[block]), "row": row}


def _origin(uid: bytes, line: dict[str, Any] | None) -> dict[str, Any]:
    facts: dict[str, Any] = {"document": uid.hex()}
    if line is not None:
        facts |= {"source": line["source"], "source_offset": line["offset"], "url": line["url"]}
    return facts
