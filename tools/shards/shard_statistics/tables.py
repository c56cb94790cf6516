"""Tables of a set: lengths, vocabulary coverage, labels, codes, languages, sources, files."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from clozeline.pipeline.corrupt.preview.row_view import Pieces
from clozeline.pipeline.shards import Manifest, ShardSet
from clozeline.tools.command import plural
from clozeline.tools.shards.shard_statistics.tally import LABEL_KINDS, Tally, mean, quantile

Cells: TypeAlias = tuple[str | int | float, ...]

_SHARES: Final = (0.5, 0.9, 0.99)
_FREQUENT: Final = 8
_LABELS: Final = ("label_ids", "target_ids")
_MAX_CLASSES: Final = 16
"""columns with more distinct values are not classes"""


@dataclass(frozen=True, slots=True)
class Figures:
    """A table of texts and numbers."""

    title: str
    header: tuple[str, ...]
    rows: tuple[Cells, ...]


def tables(shards: ShardSet, sums: Tally, pieces: Pieces | None) -> list[Figures]:
    """Return the tables that have rows for this set."""
    all_tables = [_file_table(shards), _length_table(sums), *_label_tables(sums), _coverage_table(sums, pieces)]
    all_tables += [*_class_tables(shards.manifest, sums), *_share_tables(shards.manifest, sums)]
    return [table for table in all_tables if table.rows]


def _file_table(shards: ShardSet) -> Figures:
    manifest = shards.manifest
    totals, rows = manifest.totals, [shard.rows for shard in manifest.shards] or [0]
    facts: list[Cells] = [
        ("rows", totals.samples), ("tokens", totals.tokens), ("blocks", totals.blocks), ("shards", totals.shards),
        ("fewest rows in a shard", min(rows)), ("most rows in a shard", max(rows)), ("bytes", totals.bytes),
        ("bytes a token", totals.bytes / max(1, totals.tokens)), ("bytes a row", totals.bytes / max(1, totals.samples)),
    ]  # fmt: skip
    facts += [(f"skipped: {reason}", count) for reason, count in totals.skipped.items()]
    if shards.quarantined:
        lost = int(shards.index.rows[sorted(shards.quarantined)].sum())
        facts.append((f"rows in quarantine, in {plural(len(shards.quarantined), 'block')}, not counted below", lost))
    codec = "uncompressed" if manifest.compression.codec == "none" else f"zstd {manifest.compression.level}"
    form = f"{manifest.kind}, {manifest.container}, {codec}, blocks of {manifest.block_rows:,} rows"
    return Figures(f"{manifest.name} ({form})", ("", ""), tuple(facts))


def _length_table(sums: Tally) -> Figures:
    rows: list[Cells] = []
    for name, counts in sums.lengths.items():
        smallest, largest = int(np.flatnonzero(counts)[0]), len(counts) - 1
        middle = [quantile(counts, share) for share in _SHARES]
        rows.append((name, smallest, mean(counts), *middle, largest, int((np.arange(len(counts)) * counts).sum())))
    return Figures("lengths", ("column", "smallest", "mean", "median", "90 %", "99 %", "largest", "sum"), tuple(rows))


def _label_tables(sums: Tally) -> Iterator[Figures]:
    """Yield the label counts, also as a share of the tokens that the model reads, and the tokens at their positions."""
    rows: list[Cells] = []
    for name in _LABELS:
        if name in sums.ids and "input_ids" in sums.ids:
            labels, inputs = int(sums.ids[name].sum()), int(sums.ids["input_ids"].sum())
            rows.append((name, labels, labels / max(1, sums.lengths[name].sum()), 100 * labels / max(1, inputs)))
    yield Figures("labels", ("column", "labels", "a row", "% of input_ids"), tuple(rows))
    counts, total = zip(LABEL_KINDS, sums.labels.tolist(), strict=True), max(1, int(sums.labels.sum()))
    kinds = tuple((name, count, 100 * count / total) for name, count in counts if count)
    yield Figures("input at label positions", ("", "labels", "%"), kinds)


def _class_tables(manifest: Manifest, sums: Tally) -> Iterator[Figures]:
    meaning = {column.name: column.description for column in manifest.columns}
    for name, counts in sums.numbers.items():
        values = np.flatnonzero(counts).tolist()
        if 1 < len(values) <= _MAX_CLASSES:
            total = int(counts.sum())
            shown = [manifest.languages[v] if name.endswith("language") else str(v) for v in values]
            rows = tuple((text, int(counts[v]), 100 * counts[v] / total) for text, v in zip(shown, values, strict=True))
            yield Figures(f"rows by {name} ({meaning[name]})", (name, "rows", "%"), rows)


def _coverage_table(sums: Tally, pieces: Pieces | None) -> Figures:
    rows: list[Cells] = []
    for name, counts in sums.ids.items():
        used = int(np.count_nonzero(counts))
        ordered = np.sort(counts)[::-1]
        needed = [quantile(ordered, share) + 1 if used else 0 for share in _SHARES]
        frequent = [int(token) for token in np.argsort(-counts, kind="stable")[:_FREQUENT] if counts[token]]
        shown = [str(id_) if pieces is None else pieces.piece(id_).replace("\n", "").strip() or "␣" for id_ in frequent]
        rows.append((name, used, 100 * used / len(counts), *needed, " ".join(shown)))
    header = ("column", "ids used", "% of all", "ids for 50 %", "for 90 %", "for 99 %", "most frequent")
    return Figures("vocabulary coverage", header, tuple(rows))


def _share_tables(manifest: Manifest, sums: Tally) -> Iterator[Figures]:
    totals = manifest.totals
    for title, table in (("language", totals.tokens_by_language), ("source", totals.tokens_by_source)):
        total = max(1, sum(table.values()))
        rows = sorted(((name, count, 100 * count / total) for name, count in table.items()), key=lambda row: -row[1])
        yield Figures(f"tokens by {title}", (title, "tokens", "%"), tuple(rows))
    for name in ("variant", "part", "copy"):
        if len(counts := sums.codes.get(name, np.zeros(0, np.int64))) > 1:
            shown = tuple((str(code), int(counts[code])) for code in np.flatnonzero(counts))
            yield Figures(f"rows by {name}", (name, "rows"), shown)
