"""Describe the documents that rows were cut from.

Source, URL, id and declared metadata come from the tables of `encode`.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from clozeline.pipeline.rows import RowBatch, ShardRow
from clozeline.pipeline.shards import ShardSet, open_shards
from clozeline.tools.shards.provenance.document_table import find_documents
from clozeline.tools.shards.provenance.packed_documents import packing_of, sample_manifest
from clozeline.tools.shards.provenance.row_search import PAIR_LABEL, PARTNER, find_rows, has_partner

BlockRow: TypeAlias = tuple[int, int]
"""Block number over all shards, and row in the block."""

_OF_DOCUMENTS: Final = (
    *("document", "source", "source_offset", "length", "url", "metadata"),
    *("others", "partner"),
)


def origins_of(
    shards: ShardSet, stored: Mapping[BlockRow, RowBatch]
) -> dict[BlockRow, dict[str, Any]]:
    """Return the first document of each row, the `others`, the number of all, and the `partner`.

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
    partners = _partners_of(shards, stored)
    origins = {}

    for at, row_uids in uids.items():
        first, *others = [origin_of(uid, lines.get(uid)) for uid in row_uids]
        origins[at] = {
            **first,
            "documents": len(row_uids),
            "others": others,
            **partners.get(at, {}),
        }

    return origins


def _partners_of(
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
    return {at: {"partner": origin_of(uid, lines.get(uid))} for at, uid in uids.items()}


def describe_row(
    shards: ShardSet, at: BlockRow, row: ShardRow, origin: Mapping[str, Any]
) -> dict[str, Any]:
    """Return where a row is stored, and its documents, see `origins_of`."""
    fixed = row.fixed
    facts = storage_location(shards, *at)
    if "uid" in fixed:
        facts["sample"] = f"{int(fixed['uid']):016x}"
    names = ("variant", "part", "document_offset", "copy")
    facts |= {name: int(fixed[name]) for name in names if name in fixed}
    if shards.manifest.languages:
        facts["language"] = shards.manifest.languages[int(fixed["language"])]
    count = max(origin["documents"], len(row.columns.get("document_starts", ())))
    return {**facts, **origin, "documents": count}


def list_facts(facts: Mapping[str, Any], *, hashes: bool) -> list[tuple[str, str]]:
    """Return the facts of a row as names and texts: its documents, then all single values.

    With `hashes`, documents and samples also have their uids.
    """
    documents = [("document", facts)] if "document" in facts else []
    documents += [("then document", other) for other in facts.get("others", ())]
    documents += [("partner document", facts["partner"])] if "partner" in facts else []
    lines = [(name, describe_document(each, hashes=hashes)) for name, each in documents]
    hidden = _OF_DOCUMENTS if hashes else (*_OF_DOCUMENTS, "sample")
    return lines + [(name, str(value)) for name, value in facts.items() if name not in hidden]


def describe_document(document: Mapping[str, Any], *, hashes: bool = True) -> str:
    """Return source, offset, URL, id and metadata of a document, as far as they are known.

    Its uid stands in front with `hashes`, or if nothing else is known.
    """
    known = [document["document"]] if hashes or "source" not in document else []
    if "source" in document:
        url = [document["url"]] if document["url"] else []
        metadata = document.get("metadata", {}).items()
        named = [f"{name} {value}" for name, value in metadata]
        place = f"record at {document['source_offset']:,}, {document['length']:,} long"
        known.append(", ".join([document["source"], place, *url, *named]))
    return ": ".join(known)


def describe_record(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the `id` of a document's record, if it has one, and the metadata of `encode.extra`."""
    declared = json.loads(document.get("extra") or "{}")
    identity = document.get("id")
    values = declared if identity is None else {"id": identity, **declared}
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in values.items()
    }


def storage_location(shards: ShardSet, block: int, row: int) -> dict[str, object]:
    """Return shard, block in the shard and row in the block, for a block number over all shards."""
    path = shards.manifest.shards[int(shards.index.shard[block])].path
    return {"shard": path, "block": int(shards.index.block[block]), "row": row}


def origin_of(uid: bytes, line: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a document as its table lists it; `line` is None if no table does."""
    origin: dict[str, Any] = {"document": uid.hex()}
    if line is not None:
        origin |= {name: line[name] for name in ("source", "length", "url")}
        origin["source_offset"] = line["offset"]
        if metadata := describe_record(line):
            origin["metadata"] = metadata
    return origin
