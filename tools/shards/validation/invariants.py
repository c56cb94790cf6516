"""Check row invariants that follow from the meaning of columns, whichever objective or grouping wrote them."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from clozeline.pipeline.rows import Ragged
from clozeline.pipeline.shards import Manifest
from clozeline.pipeline.tasks.readers import facts_of
from clozeline.tools.shards.validation import ragged_checks
from clozeline.tools.shards.validation.masked_rules import MASKED_CHECKS
from clozeline.tools.shards.validation.pair_rules import PAIR_CHECKS
from clozeline.tools.shards.validation.ragged_checks import Check, LocatedRows, Problem
from clozeline.tools.shards.validation.task_rules import TASK_CHECKS

BASE_COLUMNS: Final = {"tokens": "token_ids", "samples": "ids", "examples": "input_ids"}
"""The id column of each type of set; document and segment starts are positions in it."""

_POSITIONS: Final = {
    "label_positions": "input_ids", "noise_positions": "input_ids", "kept_positions": "target_ids",
    "rotation": "target_ids", "target_start": "input_ids",
}  # fmt: skip
"""Columns of ascending positions, and the id column they refer to."""


def check_rows(block: LocatedRows, manifest: Manifest) -> None:
    """Raise IntegrityError for the first row of a block that breaks an invariant."""
    for check in _CHECKS:
        for row, message in check(block, manifest):
            raise block.error(row, message)


def _columns_ending(block: LocatedRows, ending: str) -> Iterator[tuple[str, Ragged]]:
    """Yield the columns of that name; compositions prefix it with a step: `text_infilling_span_starts`."""
    for name, column in block.rows.columns.items():
        if name.endswith(ending):
            yield name, column


def _codes(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require tokens, and codes below the size of what they index: languages, variants, label classes."""
    base, languages = BASE_COLUMNS[manifest.kind], len(manifest.languages)
    if (
        manifest.kind != "tokens"
        and (row := ragged_checks.first_row(block.rows.columns[base].lengths == 0)) is not None
    ):
        yield row, f"{base} is empty"
    limits = {"variant": manifest.variants, "source_group": len(manifest.source_groups) or 1 << 16,
              "language": languages or 1 << 8}  # fmt: skip
    for name, limit in limits.items():
        codes = block.rows.fixed.get(name, np.empty(0))
        if (row := ragged_checks.first_row(codes >= limit)) is not None:
            yield row, f"{name}: expected a code below {limit}, got {int(codes[row])}"
    limits = {"languages": languages, "target_language": languages, "sentence_label": 2, "attention": 4}
    for name, limit in limits.items():
        column = block.rows.columns.get(name)
        if column is not None and (row := ragged_checks.first_of_values(column, column.values >= limit)) is not None:
            yield row, f"{name}: expected codes below {limit}, got {column[row].tolist()}"


def _labels(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    columns = block.rows.columns
    if "label_positions" not in columns:
        return
    positions, labels = columns["label_positions"], columns["label_ids"]
    if (row := ragged_checks.first_row((positions.lengths != labels.lengths) | (labels.lengths == 0))) is not None:
        counts = f"{positions.lengths[row]} positions and {labels.lengths[row]} ids"
        yield row, f"expected as many label positions as label ids, at least one, got {counts}"
        return
    if facts_of(manifest) is not None:
        return  # an answer ends with a special token, which is a label as well
    if (row := ragged_checks.first_of_values(labels, ragged_checks.special_ids(manifest)[labels.values])) is not None:
        yield row, f"expected labels that are text, got a special id among {labels[row].tolist()}"


def _positions(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    columns = block.rows.columns
    for ending in ("sentence_order", "token_order"):
        for name, order in _columns_ending(block, ending):
            if (row := ragged_checks.first_not_permutation(order)) is not None:
                yield row, f"expected {name} to be a permutation, got {order[row].tolist()}"
    for name, base in _POSITIONS.items():
        for column_name, positions in _columns_ending(block, name):
            if (row := ragged_checks.first_not_ascending(positions)) is not None:
                yield row, f"expected rising {column_name}, got {positions[row].tolist()}"
            # those of a composition step are positions in the step's input
            if (
                column_name == name
                and (row := ragged_checks.first_outside(positions, columns[base].lengths)) is not None
            ):
                length, largest = columns[base].lengths[row], positions[row].max()
                yield row, f"expected {name} below the {length} tokens of the row's {base}, got {largest}"


def _starts(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    base = BASE_COLUMNS[manifest.kind]
    endings = ("document_starts", "segment_starts", "sentence_starts")
    for name, starts in (column for ending in endings for column in _columns_ending(block, ending)):
        # sentence starts of an example are positions in the original; those of a later step, in the step's input
        of_target = name.endswith("sentence_starts") or name == "target_document_starts"
        target = "target_ids" if manifest.kind == "examples" and of_target else base
        if manifest.kind == "tokens" or name in ("document_starts", "segment_starts") or target in block.rows.columns:
            lengths = block.rows.columns[target].lengths
            if (row := ragged_checks.first_outside(starts, np.maximum(lengths, 1))) is not None:
                yield row, f"expected {name} below the row's {lengths[row]} tokens, got {starts[row].max()}"
        # a part of a mixture may lack a feature of another part; its rows are empty there
        is_mixture = manifest.objective is not None and manifest.objective.name == "mixture"
        present = starts.take(np.flatnonzero(starts.lengths)) if is_mixture else starts
        if (row := ragged_checks.first_without_zero(present)) is not None and block.rows.columns[base].lengths[row] > 0:
            yield row, f"expected {name} to start with 0, got {starts[row][:3].tolist()}"
        if name != "target_document_starts" and (row := ragged_checks.first_not_ascending(starts)) is not None:
            yield row, f"expected rising {name}, got {starts[row].tolist()}"


def _documents_of_targets(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require the same documents as in the input; one without target tokens starts where the next one does."""
    starts, documents = (block.rows.columns.get(name) for name in ("target_document_starts", "document_starts"))
    if starts is None or documents is None:
        return
    if (row := ragged_checks.first_row(starts.lengths != documents.lengths)) is not None:
        yield row, f"{documents.lengths[row]} documents in input_ids, {starts.lengths[row]} in target_ids"
        return
    falling = np.diff(starts.values.astype(np.int64), prepend=0) < 0
    if (row := ragged_checks.first_of_values(starts, falling & (ragged_checks.rank_in_row(starts) > 0))) is not None:
        yield row, f"expected target_document_starts that never fall, got {starts[row].tolist()}"


def _spans(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    for name, starts in _columns_ending(block, "span_starts"):
        lengths = block.rows.columns[name.removesuffix("starts") + "lengths"]
        if (row := ragged_checks.first_row(starts.lengths != lengths.lengths)) is not None:
            yield row, f"{name} has {starts.lengths[row]} entries, their lengths {lengths.lengths[row]}"
            return
        ends = starts.values.astype(np.int64) + lengths.values
        overlap = np.zeros(len(ends), dtype=np.bool_)
        overlap[1:] = (starts.values[1:] < ends[:-1]) & (ragged_checks.rank_in_row(starts)[1:] > 0)
        if (row := ragged_checks.first_of_values(starts, overlap)) is not None:
            yield row, f"{name}: spans overlap: {starts[row].tolist()} with lengths {lengths[row].tolist()}"


def _sentinels(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require sentinels in order, each once, in the input and in the target."""
    sentinels = list(manifest.tokenizer.sentinels)
    if not {"input_ids", "target_ids"} <= block.rows.columns.keys() or not sentinels:
        return
    ranks = np.full(manifest.tokenizer.vocab_size, -1, dtype=np.int64)
    ranks[sentinels] = np.arange(len(sentinels))
    for name in ("input_ids", "target_ids"):
        ranks_found = ragged_checks.as_ranks(block.rows.columns[name], ranks)
        if (
            row := ragged_checks.first_of_values(
                ranks_found, ranks_found.values != ragged_checks.rank_in_row(ranks_found)
            )
        ) is not None:
            yield row, f"expected the sentinels of {name} in order, each once, got {ranks_found[row].tolist()}"


_CHECKS: Final[tuple[Check, ...]] = (
    _codes, _labels, _positions, _starts, _documents_of_targets, _spans, _sentinels,
    *MASKED_CHECKS, *PAIR_CHECKS, *TASK_CHECKS,
)  # fmt: skip
