"""Describe a set and the source of a row as sheets of a view."""

from typing import Any, Final

import numpy as np

from clozeline.pipeline.corrupt.preview.row_view import TokenRenderer
from clozeline.pipeline.rows import ShardRow
from clozeline.pipeline.shards import Manifest, ShardSet
from clozeline.pipeline.shards.column_set import JoinedShards
from clozeline.report.views import Table
from clozeline.tools.shards.provenance.document_table import find_documents
from clozeline.tools.shards.provenance.row_origins import (
    describe_origin,
    describe_record,
    documents_of,
    partners_of,
)

_SHOWN_VALUES = 24


def set_sheet(manifest: Manifest) -> Table:
    """Return sizes and settings of the set."""
    totals = manifest.totals
    per_row = totals.tokens / max(1, totals.samples)
    tokenizer = manifest.tokenizer
    blocks = f"{totals.blocks:,} blocks of {manifest.block_rows:,} rows"
    length = f"{per_row:.1f} a row, at most {manifest.max_length:,}"
    facts = {
        "set": f"{manifest.name} ({manifest.kind})",
        "rows": f"{totals.samples:,} with {totals.tokens:,} tokens, {length}",
        "files": f"{totals.shards:,} shards, {blocks}, {totals.bytes:,} bytes "
        f"({manifest.container}, {manifest.compression})",
        "tokenizer": f"{tokenizer.name}, {tokenizer.vocab_size:,} ids, "
        f"{tokenizer.fingerprint[:16]}…",
    }
    if manifest.grouping is not None:
        facts["grouping"] = _algorithm(manifest.grouping.entry())
    if manifest.objective is not None:
        facts["objective"] = _algorithm(manifest.objective.entry(), manifest.objective.label)
        facts["variants"] = f"{manifest.variants}"

    if totals.tokens_by_language:
        facts["languages"] = ", ".join(
            f"{name} {count:,}" for name, count in totals.tokens_by_language.items()
        )

    for key, total in manifest.config.get("extra_totals", {}).items():
        facts[key] = _describe_extra(total)
    if totals.skipped:
        facts["skipped"] = ", ".join(
            f"{reason} {count:,}" for reason, count in totals.skipped.items()
        )

    return Table("set", (), [*facts.items()])


def _describe_extra(total: dict[str, Any]) -> str:
    """Return the totals of a declared column of the documents in a line."""
    ranked = sorted(total["values"].items(), key=lambda item: -item[1]["documents"])[:_SHOWN_VALUES]
    parts = [
        f"{value}: {amounts['documents']:,} documents, {amounts['tokens']:,} tokens"
        for value, amounts in ranked
    ]
    if total["others"]["documents"]:
        parts.append(f"others: {total['others']['documents']:,} documents")
    if numbers := total["numbers"]:
        mean = numbers["sum"] / numbers["count"]
        parts.append(
            f"mean {mean:.4g} of {numbers['count']:,}, from {numbers['min']:.4g} to "
            f"{numbers['max']:.4g}"
        )

    return "; ".join(parts) or "no document has it"


def _algorithm(entry: dict[str, object], label: object = "") -> str:
    name = entry.pop("name")
    texts = [str(name) if label in ("", name) else f"{label} ({name})"]
    for name, value in sorted(entry.items()):
        if isinstance(value, list) and all(
            isinstance(item, dict) and "name" in item for item in value
        ):
            value = "+".join(str(item["name"]) for item in value)
        texts.append(f"{name}={value}")
    return " ".join(texts)


def origin_sheet(shards: ShardSet, block: int, number: int, row: ShardRow) -> Table:
    """Return shard, block, row, and the documents that the row was cut from."""
    fixed = row.fixed
    manifest = shards.manifest
    shard = shards.shard_path(int(shards.index.shard[block]))
    facts = {"stored in": f"{shard.name}, block {int(shards.index.block[block])}, row {number}"}

    if "uid" in fixed:
        facts["sample"] = (
            f"{int(fixed['uid']):016x}, variant {int(fixed['variant'])}, part {int(fixed['part'])}"
        )

    uid = fixed["document_uid"].tobytes()
    offset = f", from token {int(fixed['document_offset'])}" if "document_offset" in fixed else ""
    copy = f", copy {int(fixed['copy'])}" if fixed.get("copy") else ""
    facts["document"] = f"{uid.hex()}{offset}{copy}"
    if manifest.languages:
        facts["language"] = manifest.languages[int(fixed["language"])]
    document = find_documents(shards.path, [uid]).get(uid)
    if document is not None:
        facts["source"] = (
            f"{document['source']}, record at {document['offset']:,}, {document['length']:,} long"
        )
        facts["url"] = document["url"] or "none"
        facts |= describe_record(document)
    # the other documents with text in the row
    at = {(block, number): shards.read_block(block).take(np.array([number]))}
    others = [("then", other) for other in documents_of(shards, at)[block, number][1:]]
    others += [
        ("partner", facts_of_row["partner"]) for facts_of_row in partners_of(shards, at).values()
    ]
    named = [
        (f"{name} document", f"{other['document']}{describe_origin(other)}")
        for name, other in others
    ]
    return Table("where it comes from", (), [*facts.items(), *named])


def column_sheet(manifest: Manifest, row: ShardRow) -> Table:
    """Return every list column with its role, its values in this row and its meaning."""
    rows = []
    for spec in manifest.columns:
        if spec.name in row.columns:
            values = np.asarray(row.columns[spec.name])
            more = f" … {len(values) - _SHOWN_VALUES:,} more" if len(values) > _SHOWN_VALUES else ""
            shown = " ".join(str(value) for value in values[:_SHOWN_VALUES].tolist())
            rows.append(
                (spec.name, spec.arrow_type, str(spec.role), f"{shown}{more}", spec.description)
            )
    return Table("columns", ("name", "type", "role", "values", "meaning"), tuple(rows))


_SHOWN: Final = 5


def score_sheets(pieces: TokenRenderer, row: ShardRow, shards: ShardSet) -> list[Table]:
    """Return a table with the five best classes of the teacher for each label.

    [] without stored scores.

    Labels that are not stored as `label_ids` are counted from 1; classes of tasks are numbers.
    """
    parts = shards.column_sets if isinstance(shards, JoinedShards) else ()
    entries = [
        part.manifest.config["teacher"]["k"] for part in parts if "teacher" in part.manifest.config
    ]
    if not entries:
        return []
    # ids and weights [labels, k]
    labels = row.columns.get("label_ids")
    are_classes = any(role.below == "classes" for role in shards.manifest.roles.values())
    ids, weights = (
        row[name].reshape(-1, entries[0]) for name in ("teacher_ids", "teacher_weights")
    )
    lines = []

    for number, (token_id, shares) in enumerate(zip(ids, weights, strict=True)):
        best = [
            entry
            for entry in np.argsort(-shares.astype(np.float64), kind="stable")[:_SHOWN]
            if shares[entry] > 0
        ]

        named = [
            str(token_id[entry]) if are_classes else pieces.piece(int(token_id[entry]))
            for entry in best
        ]
        scored = " · ".join(
            f"{name} {float(shares[entry]):.3f}" for name, entry in zip(named, best, strict=True)
        )
        label = str(number + 1) if labels is None else pieces.piece(int(labels[number]))
        lines.append((label, scored))

    return [Table("best scores of the teacher", ("label", "class and weight"), tuple(lines))]
