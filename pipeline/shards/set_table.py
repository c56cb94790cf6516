"""Show the sizes and settings of a shard set."""

from clozeline.pipeline.shards.manifest import Manifest
from clozeline.report.views import Table


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

    if totals.skipped:
        facts["skipped"] = ", ".join(
            f"{reason} {count:,}" for reason, count in totals.skipped.items()
        )

    return Table("set", (), [*facts.items()])


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
