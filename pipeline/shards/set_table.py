"""Show the sizes and settings of a shard set."""

from typing import Any, Final

from clozeline.pipeline.shards.manifest import Manifest
from clozeline.report.views import Table

_MOST_VALUES: Final = 24
"""Most values of a declared column of the documents that are listed."""


def set_table(manifest: Manifest) -> Table:
    """Return sizes and settings of a set as names and texts."""
    totals = manifest.totals
    per_row = totals.tokens / max(1, totals.samples)
    tokenizer = manifest.tokenizer
    sizes = [shard.rows for shard in manifest.shards] or [0]
    blocks = f"{totals.blocks:,} blocks of {manifest.block_rows:,} rows"
    per_token = totals.bytes / max(1, totals.tokens)
    length = f"{per_row:.1f} a row, at most {manifest.max_length:,}"
    facts = {
        "set": f"{manifest.name} ({manifest.kind})",
        "rows": f"{totals.samples:,} with {totals.tokens:,} tokens, {length}",
        "files": f"{totals.shards:,} shards of {min(sizes):,} to {max(sizes):,} rows, {blocks}, "
        f"{totals.bytes:,} bytes ({manifest.container}, {manifest.compression}), {per_token:.2f} a "
        "token",
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
    ranked = sorted(total["values"].items(), key=lambda item: -item[1]["documents"])[:_MOST_VALUES]
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
