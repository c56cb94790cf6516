"""Check each column by its role, and columns together.

The latter is known of columns of our objectives.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Bool
from clozeline.columns import Feature, Role, Use
from clozeline.errors import IntegrityError
from clozeline.pipeline.corrupt.objectives.corrective_lm import CROP_LENGTH, CROP_START
from clozeline.pipeline.corrupt.objectives.span_boundary import SPAN_LENGTHS, SPAN_STARTS
from clozeline.pipeline.kernels.ragged import flatten_positions
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.set_kinds import Problem, kind_of
from clozeline.pipeline.shards import Manifest
from clozeline.tools.shards.provenance.document_table import grouping_of, vocabulary_of_manifest


def row_of_values(ragged: Ragged) -> NDArray[np.int64]:
    """Return the row of each value, shape [values]."""
    return np.repeat(np.arange(len(ragged), dtype=np.int64), ragged.lengths)


def rank_in_row(ragged: Ragged) -> NDArray[np.int64]:
    """Return the index of each value in its row, shape [values]."""
    lengths = ragged.lengths
    ranks: NDArray[np.int64] = np.arange(len(ragged.values), dtype=np.int64)
    return ranks - np.repeat(np.cumsum(lengths) - lengths, lengths)


def first_row(wrong: Bool) -> int | None:
    """Return the first row marked as wrong, None if no row is."""
    return int(np.argmax(wrong)) if wrong.any() else None


def first_of_values(ragged: Ragged, wrong: Bool) -> int | None:
    """Return the row of the first value marked as wrong, None if no value is."""
    return int(row_of_values(ragged)[np.argmax(wrong)]) if wrong.any() else None


def first_not_ascending(ragged: Ragged, least: int = 1) -> int | None:
    """Return the first row with a value that exceeds its predecessor by less than `least`."""
    falls = np.diff(ragged.values.astype(np.int64), prepend=0) < least
    return first_of_values(ragged, falls & (rank_in_row(ragged) > 0))


def first_outside(ragged: Ragged, bounds: NDArray[np.int64]) -> int | None:
    """Return the first row with a value that is not below the row's bound [rows]."""
    return first_of_values(ragged, ragged.values.astype(np.int64) >= bounds[row_of_values(ragged)])


def first_repeated(ragged: Ragged) -> int | None:
    """Return the first row that has a value twice."""
    order = np.lexsort((ragged.values, row_of_values(ragged)))
    return first_not_ascending(Ragged(ragged.values[order], ragged.offsets))


def as_ranks(ragged: Ragged, ranks: NDArray[np.int64]) -> Ragged:
    """Return the rank of each value from a table [ids]; values with the rank -1 are dropped."""
    mapped = ranks[ragged.values]
    has_rank = mapped >= 0
    counts = np.bincount(row_of_values(ragged)[has_rank], minlength=len(ragged))
    return Ragged(
        mapped[has_rank], np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))
    )


def value_or(ragged: Ragged, default: int) -> NDArray[np.int64]:
    """Return the single value of each row, shape [rows].

    Rows of a mixture that lack the column get the default.
    """
    single_values = np.full(len(ragged), default, np.int64)
    single = ragged.lengths == 1
    single_values[single] = ragged.values[ragged.offsets[:-1][single]]
    return single_values


@dataclass(frozen=True, slots=True)
class LocatedRows:
    """The rows of one block of a shard, with all columns."""

    path: Path
    block: int
    rows: RowBatch

    def error(self, row: int, message: str) -> IntegrityError:
        """Return an error that names the row."""
        fixed = self.rows.fixed
        sample = f"sample {int(fixed['uid'][row]):016x}" if "uid" in fixed else "document"
        variant = f", variant {int(fixed['variant'][row])}" if "variant" in fixed else ""
        document = (
            f" of document {fixed['document_uid'][row].tobytes().hex()}"
            if "document_uid" in fixed
            else ""
        )
        return IntegrityError(
            f"{self.path}: block {self.block}: row {row} ({sample}{variant}{document}): {message}"
        )


Check: TypeAlias = Callable[[LocatedRows, Manifest], Iterator[Problem]]


def rows_with(column: Ragged, block: LocatedRows, manifest: Manifest) -> Bool:
    """Return which rows must have a column; in a mixture, only some objectives may have it.

    In a token set, a document may lack the column of its second text.
    """
    if manifest.kind == "tokens":
        return column.lengths > 0
    grouping = grouping_of(manifest)
    if manifest.objective is None or grouping is None or len(grouping.lengths) == 1:
        return np.ones(len(column), np.bool_)
    part = block.rows.fixed["part"]
    return np.isin(part, part[column.lengths > 0])


BASE_COLUMNS: Final = {"tokens": "token_ids", "samples": "ids", "examples": "input_ids"}
"""The column with the text of a row, in each type of set."""


def check_rows(block: LocatedRows, manifest: Manifest) -> None:
    """Raise IntegrityError for the first row of a block that breaks a rule.

    Some rules check a column by its role, others compare columns with each other.
    """
    for check in (_codes, _roles, *COLUMN_RULES, _answers):
        for row, message in check(block, manifest):
            raise block.error(row, message)


def _answers(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require answers that the kind of set allows."""
    if (kind := kind_of(manifest.objective)) is not None:
        yield from kind.problems(block.rows.columns)


def _codes(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require tokens, and codes of fixed columns, below the size of the list they index."""
    base = BASE_COLUMNS[manifest.kind]
    if (
        manifest.kind != "tokens"
        and (row := first_row(block.rows.columns[base].lengths == 0)) is not None
    ):
        yield row, f"{base} is empty"

    limits = {
        "variant": manifest.variants,
        "source_group": len(manifest.source_groups) or 1 << 16,
        "language": len(manifest.languages) or 1 << 8,
    }
    for name, limit in limits.items():
        codes = block.rows.fixed.get(name, np.empty(0))
        if (row := first_row(codes >= limit)) is not None:
            yield row, f"{name}: expected a code below {limit}, got {int(codes[row])}"


def _roles(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    columns = block.rows.columns
    kind = kind_of(manifest.objective)
    limits = {
        "languages": len(manifest.languages),
        **({"classes": kind.classes} if kind is not None else {}),
    }

    for spec in manifest.columns:
        role = spec.role
        if role is None or role.use == "undo":
            continue
        column = columns[spec.name]
        limit = limits.get(role.below) if isinstance(role.below, str) else role.below
        if (
            limit is not None
            and (row := first_of_values(column, column.values >= limit)) is not None
        ):
            yield row, f"expected {spec.name} below {limit}, got {column[row].tolist()}"

        if role.use in _BY_USE:
            present = rows_with(column, block, manifest)
            yield from _BY_USE[role.use](spec.name, role, columns, present)


def _positions(
    name: str, role: Role, columns: Mapping[str, Ragged], present: Bool
) -> Iterator[Problem]:
    positions = columns[name]
    indexed = columns[role.of]
    if (row := first_outside(positions, indexed.lengths)) is not None:
        yield (
            row,
            f"expected {name} below the {indexed.lengths[row]} tokens of the row's {role.of}, got "
            f"{positions[row].max()}",
        )

    if (
        first_not_ascending(positions) is not None
        and (row := first_repeated(positions)) is not None
    ):
        yield row, f"expected each position once in {name}, got {positions[row].tolist()}"


def _starts(
    name: str, role: Role, columns: Mapping[str, Ragged], present: Bool
) -> Iterator[Problem]:
    starts = columns[name]
    lengths = columns[role.of].lengths
    # a part without tokens, at the end too, starts where the next one does
    if (row := first_outside(starts, np.maximum(lengths, 1))) is not None:
        yield row, f"expected {name} below the row's {lengths[row]} tokens, got {starts[row].max()}"
    first_starts = np.full(len(starts), -1)
    has_starts = starts.lengths > 0
    first_starts[has_starts] = starts.values[starts.offsets[:-1][has_starts]]
    if (row := first_row((first_starts != 0) & (present & (lengths > 0) | has_starts))) is not None:
        yield row, f"expected {name} to start with 0, got {starts[row][:3].tolist()}"
    if role.of != "target_ids" and (row := first_not_ascending(starts)) is not None:
        yield row, f"expected rising {name}, got {starts[row].tolist()}"
    if (row := first_not_ascending(starts, 0)) is not None:
        yield row, f"expected {name} that never fall, got {starts[row].tolist()}"


def _labels(
    name: str, role: Role, columns: Mapping[str, Ragged], present: Bool
) -> Iterator[Problem]:
    if not role.of:
        return
    labels = columns[name]
    label_positions = columns[role.of]
    if (row := first_row(labels.lengths != label_positions.lengths)) is not None:
        yield (
            row,
            f"expected as many {name} as {role.of}, got {labels.lengths[row]} and "
            f"{label_positions.lengths[row]}",
        )

    if (row := first_not_ascending(label_positions)) is not None:
        yield row, f"expected rising {role.of}, got {label_positions[row].tolist()}"
    if not role.head and (row := first_row(present & (labels.lengths == 0))) is not None:
        yield row, f"expected {name}, at least one, got none"


def _one_value(
    name: str, role: Role, columns: Mapping[str, Ragged], present: Bool
) -> Iterator[Problem]:
    column = columns[name]
    if (row := first_row((column.lengths != 1) & (present | (column.lengths > 0)))) is not None:
        yield row, f"expected one {name}, got {column[row].tolist()}"


def _weights(
    name: str, role: Role, columns: Mapping[str, Ragged], present: Bool
) -> Iterator[Problem]:
    yield from _one_value(name, role, columns, present)
    weights = columns[name]
    if (
        row := first_of_values(weights, ~(np.isfinite(weights.values) & (weights.values > 0)))
    ) is not None:
        yield row, f"expected a {name} above 0, got {weights[row].tolist()}"


_BY_USE: Final[
    Mapping[Use, Callable[[str, Role, Mapping[str, Ragged], Bool], Iterator[Problem]]]
] = {
    "position": _positions,
    "start": _starts,
    "label": _labels,
    "row": _one_value,
    "weight": _weights,
}


def _declares(manifest: Manifest, *features: Feature) -> bool:
    """Return whether a set has these columns with the roles that our objectives give them."""
    return all(manifest.roles.get(feature.name) == feature.stored_role for feature in features)


_FRAME_TOKENS: Final = 2
"""Number of special tokens in a row with one text."""
_PAIR_FRAME_TOKENS: Final = 3
_PREFIX_MODE: Final = 3
"""Number of the attention mode with a prefix."""


def _text_alone(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require that labels are text; answers also end with a special token."""
    columns = block.rows.columns
    special = vocabulary_of_manifest(manifest.tokenizer).special

    if "label_ids" in columns and kind_of(manifest.objective) is None:
        labels = columns["label_ids"]
        if (row := first_of_values(labels, special[labels.values])) is not None:
            yield (
                row,
                f"expected labels that are text, got a special id among {labels[row].tolist()}",
            )

    if "prediction_order" not in columns:
        return
    order = columns["prediction_order"]
    rows = columns["input_ids"]
    if (row := first_row(rows_with(order, block, manifest) & (order.lengths == 0))) is not None:
        yield row, "prediction_order is empty"
    predicted = rows.values[flatten_positions(order, rows.offsets)]
    if (row := first_of_values(order, special[predicted])) is not None:
        yield (
            row,
            "expected positions of text in prediction_order, got the position of a special token: "
            f"{order[row].tolist()}",
        )


def _attention(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    columns = block.rows.columns
    if "attention" not in columns or "prefix_length" not in columns:
        return
    mode = columns["attention"]
    prefix = columns["prefix_length"]
    prefixes = value_or(prefix, 0)
    wrong = ((value_or(mode, 0) == _PREFIX_MODE) != (prefixes > 0)) | (
        prefixes > columns["input_ids"].lengths
    )
    if (row := first_row(wrong)) is not None:
        values = f"{prefix[row].tolist()} with attention {mode[row].tolist()}"
        yield (
            row,
            f"expected a prefix_length inside the row for attention {_PREFIX_MODE}, else 0; got "
            f"{values}",
        )


def _label_spans(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require spans that cover the labels, all of them and nothing else."""
    columns = block.rows.columns
    if not _declares(manifest, SPAN_STARTS, SPAN_LENGTHS) or "label_positions" not in columns:
        return
    # rows of other parts of a mixture have no spans
    stored = np.flatnonzero(columns["span_starts"].lengths)
    names = ("span_starts", "span_lengths", "label_positions")
    starts, lengths, labels = (columns[name].take(stored) for name in names)
    sizes = lengths.values.astype(np.int64)
    # positions that all spans cover, one after the other
    ends = np.cumsum(sizes)
    covered = np.repeat(starts.values.astype(np.int64) - ends + sizes, sizes) + np.arange(
        int(sizes.sum())
    )
    per_row = np.bincount(row_of_values(starts), sizes, minlength=len(starts)).astype(np.int64)
    if (row := first_row(per_row != labels.lengths)) is not None:
        yield (
            int(stored[row]),
            f"expected spans of {labels.lengths[row]} labels, got {per_row[row]} tokens in spans",
        )
    elif (row := first_of_values(labels, covered != labels.values)) is not None:
        given_starts = f"starts {starts[row].tolist()}"
        yield (
            int(stored[row]),
            f"expected spans that cover the labels {labels[row].tolist()}, got {given_starts}",
        )


def _crops(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    columns = block.rows.columns
    if not _declares(manifest, CROP_START, CROP_LENGTH):
        return
    starts = columns["crop_start"]
    lengths = columns["crop_length"]
    rows = columns["input_ids"]
    size = value_or(lengths, 1)
    outside = value_or(starts, 0) + size > rows.lengths - _FRAME_TOKENS
    if (row := first_row((starts.lengths == 1) & ((size == 0) | outside))) is not None:
        crop = f"{lengths[row].tolist()} from {starts[row].tolist()}"
        yield (
            row,
            f"expected a crop inside the {rows.lengths[row] - _FRAME_TOKENS} content tokens, got "
            f"{crop}",
        )


def _documents_of_targets(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require the same documents in both texts."""
    starts, documents = (
        block.rows.columns.get(name) for name in ("target_document_starts", "document_starts")
    )
    if starts is None or documents is None:
        return
    if (row := first_row(starts.lengths != documents.lengths)) is not None:
        yield (
            row,
            f"{documents.lengths[row]} documents in input_ids, {starts.lengths[row]} in target_ids",
        )


def _sentinels(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require sentinels in order, each once, in the input and in the target."""
    sentinels = list(manifest.tokenizer.sentinels)
    if not {"input_ids", "target_ids"} <= block.rows.columns.keys() or not sentinels:
        return
    ranks = np.full(manifest.tokenizer.vocab_size, -1, dtype=np.int64)
    ranks[sentinels] = np.arange(len(sentinels))

    for name in ("input_ids", "target_ids"):
        ranks_found = as_ranks(block.rows.columns[name], ranks)
        if (
            row := first_of_values(ranks_found, ranks_found.values != rank_in_row(ranks_found))
        ) is not None:
            yield (
                row,
                f"expected the sentinels of {name} in order, each once, got "
                f"{ranks_found[row].tolist()}",
            )


def _segments(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require two segments with text, separated by [SEP]."""
    columns = block.rows.columns
    if "segment_starts" not in columns or "input_ids" not in columns or "choice_starts" in columns:
        return
    starts = columns["segment_starts"]
    rows = columns["input_ids"]
    paired = rows_with(starts, block, manifest)
    if (row := first_row(paired & (starts.lengths != 2))) is not None:
        yield row, f"expected two segment_starts, got {starts[row].tolist()}"
        return
    # the second segment's start per row; rows without segments get a value that passes
    second = np.full(len(rows), _PAIR_FRAME_TOKENS, np.int64)
    second[paired] = starts.values[1::2]
    lengths = np.where(paired, rows.lengths, _PAIR_FRAME_TOKENS + 2)
    if (row := first_row((second < _PAIR_FRAME_TOKENS) | (second + 1 >= lengths))) is not None:
        yield (
            row,
            f"expected text on both sides of the second segment's start {second[row]} of "
            f"{rows.lengths[row]}",
        )
        return

    sep = manifest.tokenizer.special_ids.get("sep", -1)
    before = rows.values[np.where(paired, rows.offsets[:-1] + second - 1, 0)]
    if (row := first_row(paired & (before != sep))) is not None:
        yield row, f"expected [SEP] before the second segment, which starts at {second[row]}"


def _partners(block: LocatedRows, manifest: Manifest) -> Iterator[Problem]:
    """Require a partner from another document that is shorter than the window."""
    columns = block.rows.columns
    if "partner_ids" not in columns:
        return
    partners = columns["partner_ids"]
    windows = columns["ids"]
    uids = columns["partner_document_uid"]

    if (
        row := first_row((partners.lengths == 0) | (partners.lengths >= windows.lengths))
    ) is not None:
        yield (
            row,
            f"expected a partner of 1 to {windows.lengths[row] - 1} tokens, got "
            f"{partners.lengths[row]}",
        )

    if (row := first_row(uids.lengths != 16)) is not None:
        yield row, f"expected the 16 bytes of the partner's document, got {uids.lengths[row]}"
        return

    same = (uids.values.reshape(-1, 16) == block.rows.fixed["document_uid"]).all(axis=1)
    if (row := first_row(same)) is not None:
        yield row, "expected a partner from another document, got one from the window's document"


COLUMN_RULES: Final[tuple[Check, ...]] = (
    _text_alone,
    _attention,
    _label_spans,
    _crops,
    _documents_of_targets,
    _sentinels,
    _segments,
    _partners,
)
