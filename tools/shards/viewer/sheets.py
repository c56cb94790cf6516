"""Describe a set and the source of a row as sheets of a view."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from clozeline.pipeline.corrupt.preview.row_view import visible
from clozeline.pipeline.corrupt.preview.view import Cell, Sheet
from clozeline.pipeline.rows import Row
from clozeline.pipeline.shards import Manifest, ShardSet
from clozeline.tools.shards.provenance.document_table import find_documents
from clozeline.tools.shards.provenance.row_origins import describe_origin, documents_of, partners_of

_SHOWN_VALUES = 24


def set_sheet(manifest: Manifest) -> Sheet:
    """Return sizes and settings of the set."""
    totals = manifest.totals
    per_row = totals.tokens / max(1, totals.samples)
    codec = "uncompressed" if manifest.compression.codec == "none" else f"zstd {manifest.compression.level}"
    tokenizer, blocks = manifest.tokenizer, f"{totals.blocks:,} blocks of {manifest.block_rows:,} rows"
    length = f"{per_row:.1f} a row, at most {manifest.max_length:,}"
    facts = {
        "set": f"{manifest.name} ({manifest.kind})",
        "rows": f"{totals.samples:,} with {totals.tokens:,} tokens, {length}",
        "files": f"{totals.shards:,} shards, {blocks}, {totals.bytes:,} bytes ({manifest.container}, {codec})",
        "tokenizer": f"{tokenizer.name}, {tokenizer.vocab_size:,} ids, {tokenizer.fingerprint[:16]}…",
    }
    if manifest.grouping is not None:
        facts["grouping"] = f"{manifest.grouping.name} {_options(manifest.grouping.options)}"
    if manifest.objective is not None:
        name, label = manifest.objective.name, manifest.objective.label
        shown = name if name == label else f"{label} ({name})"
        facts["objective"] = f"{shown} {_options(manifest.objective.options)}"
        facts["variants"] = f"{manifest.variants}"
    if totals.tokens_by_language:
        facts["languages"] = ", ".join(f"{name} {count:,}" for name, count in totals.tokens_by_language.items())
    if totals.skipped:
        facts["skipped"] = ", ".join(f"{reason} {count:,}" for reason, count in totals.skipped.items())
    return Sheet("set", (), _pairs(facts.items()))


def _options(options: dict[str, Any]) -> str:
    texts = []
    for name, value in sorted(options.items()):
        if isinstance(value, list) and all(isinstance(item, dict) and "name" in item for item in value):
            value = "+".join(str(item["name"]) for item in value)
        texts.append(f"{name}={value}")
    return " ".join(texts)


def _pairs(facts: Iterable[tuple[str, str]]) -> tuple[tuple[Cell, ...], ...]:
    return tuple((name, visible(value)) for name, value in facts)


def origin_sheet(shards: ShardSet, block: int, number: int, row: Row) -> Sheet:
    """Return shard, block, row, and the documents that the row was cut from."""
    fixed, manifest = row.fixed, shards.manifest
    shard = shards.shard_path(int(shards.index.shard[block]))
    facts = {"stored in": f"{shard.name}, block {int(shards.index.block[block])}, row {number}"}
    if "uid" in fixed:
        facts["sample"] = f"{int(fixed['uid']):016x}, variant {int(fixed['variant'])}, part {int(fixed['part'])}"
    uid = fixed["document_uid"].tobytes()
    offset = f", from token {int(fixed['document_offset'])}" if "document_offset" in fixed else ""
    copy = f", copy {int(fixed['copy'])}" if fixed.get("copy") else ""
    facts["document"] = f"{uid.hex()}{offset}{copy}"
    if manifest.languages:
        facts["language"] = manifest.languages[int(fixed["language"])]
    document = find_documents(shards.path, [uid]).get(uid)
    if document is not None:
        facts["source"] = f"{document['source']}, record at {document['offset']:,}, {document['length']:,} long"
        facts["url"] = document["url"] or "none"
    # the other documents with text in the row
    at = {(block, number): shards.read_block(block).take(np.array([number]))}
    others = [("then", other) for other in documents_of(shards, at)[block, number][1:]]
    others += [("partner", facts_of_row["partner"]) for facts_of_row in partners_of(shards, at).values()]
    named = [(f"{name} document", f"{other['document']}{describe_origin(other)}") for name, other in others]
    return Sheet("where it comes from", (), _pairs([*facts.items(), *named]))


def column_sheet(manifest: Manifest, row: Row) -> Sheet:
    """Return every list column with its values in this row and its meaning."""
    rows: list[tuple[Cell, ...]] = []
    for spec in manifest.specs:
        if spec.name in row.columns:
            values = np.asarray(row.columns[spec.name])
            more = f" … {len(values) - _SHOWN_VALUES:,} more" if len(values) > _SHOWN_VALUES else ""
            shown = " ".join(str(value) for value in values[:_SHOWN_VALUES].tolist())
            rows.append((spec.name, spec.arrow_type, f"{shown}{more}", spec.description))
    return Sheet("columns", ("name", "type", "values", "meaning"), tuple(rows))
