"""Build the tensors that single heads read: labels of rows, answer and masked spans, second views, choices."""

from collections.abc import Collection, Mapping

import numpy as np
import torch
from torch import Tensor

from clozeline.arrays import Int64
from clozeline.model.loss import IGNORED
from clozeline.pipeline.rows import Ragged, Role
from clozeline.train.data.stream.padding import flatten, one_a_row, pad_rows


def head_tensors(
    read: Collection[str],
    columns: Mapping[str, Ragged],
    tensors: Mapping[str, Tensor],
    ids: Int64,
    lengths: Int64,
    pad: int,
) -> dict[str, Tensor]:
    """Return the tensors of columns with a rule for one head, int64 except `answer_places`.

    `label` [B, classes] from the column `labels`, -100 in rows without. `answer_start` and `answer_end` [B], -100 in
    rows without an answer; `answer_places` [B, T] bool. `span_left`, `span_right` [N], flat indices in B * T of the
    tokens on both sides of each label's span, and `span_offset` [N], the label's position in it, -1 for a label outside
    of spans. `input_ids_b`, `position_ids_b` [B, Tb] and `lengths_b` [B], 0 in rows without a second view: the stored
    one, or the special tokens around a crop of the original row.

    Args:
        read: columns that the sets of the stream hold.
        columns: those of this micro-batch; an absent column is empty in all rows.
        tensors: of the batch, its labels among them.
        ids: padded input ids [B, T].
        lengths: tokens of each row [B].
        pad: id of padding.
    """
    empty = Ragged(np.zeros(0, np.int64), np.zeros(len(ids) + 1, np.int64))
    lists = {name: columns.get(name, empty) for name in (*read, "label_positions", "label_ids")}
    added: dict[str, Tensor] = {}
    if "labels" in read:
        values, sizes = pad_rows(lists["labels"], IGNORED)
        added["label"] = torch.from_numpy(np.where(sizes[:, None] > 0, values.astype(np.int64), IGNORED))
    # spans: answers, and neighbors of masked spans
    if "answer_span" in read:
        added |= _answer_bounds(lists["answer_span"], lists["answer_places"], ids.shape)
    if "span_starts" in read:
        added |= _span_neighbors(lists["span_starts"], lists["span_lengths"], tensors["label_index"].numpy(), ids.shape)
    # second views [B, Tb] with lengths [B]: stored ones, and crops of the row before masking
    views = [pad_rows(lists["input_ids_b"], pad)] if "input_ids_b" in read else []
    if "crop_start" in read:
        original = ids.astype(np.int64)
        positions, rows = flatten(lists["label_positions"])
        original[rows, positions] = flatten(lists["label_ids"])[0]
        start, length = (one_a_row(lists[name]) for name in ("crop_start", "crop_length"))
        views.append(_crop(original, lengths, start, length, pad))
    if not views:
        return added
    # merge the views; each row has at most one
    sizes = np.sum([size for _, size in views], axis=0)
    second = np.full((len(sizes), max(view.shape[1] for view, _ in views)), pad, np.int64)
    for view, size in views:
        second[size > 0, : view.shape[1]] = view[size > 0]
    added |= {"input_ids_b": torch.from_numpy(second), "lengths_b": torch.from_numpy(sizes)}
    return added | {"position_ids_b": torch.arange(second.shape[1]).expand(*second.shape)}


def _answer_bounds(spans: Ragged, allowed_at: Ragged, shape: tuple[int, ...]) -> dict[str, Tensor]:
    """Return first and last positions of answers [B], -100 in rows without, and the allowed positions [B, T]."""
    ends, rows = flatten(spans)
    bounds = np.full((shape[0], 2), IGNORED, np.int64)
    bounds[rows[::2]] = ends.reshape(-1, 2)
    allowed = np.zeros(shape, np.bool_)
    positions, row = flatten(allowed_at)
    allowed[row, positions] = True
    return {
        "answer_start": torch.from_numpy(bounds[:, 0].copy()),
        "answer_end": torch.from_numpy(bounds[:, 1].copy()),
        "answer_places": torch.from_numpy(allowed),
    }


def _span_neighbors(starts: Ragged, lengths: Ragged, labels: Int64, shape: tuple[int, ...]) -> dict[str, Tensor]:
    """Return both neighbors and the offset of each label, given the flat indices of labels [N] in B * T."""
    first, rows = flatten(starts)
    sizes, _ = flatten(lengths)
    first = first + rows * shape[1]
    # flatten the spans to tokens: offset in the span, and index in B * T
    offset = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    index = np.repeat(first, sizes) + offset
    table = np.zeros((3, shape[0] * shape[1]), np.int64)  # left neighbor, right neighbor, offset of every token
    table[2] = -1
    table[:, index] = np.repeat(first - 1, sizes), np.repeat(first + sizes, sizes), offset
    return dict(zip(("span_left", "span_right", "span_offset"), torch.from_numpy(table[:, labels]), strict=True))


def _crop(original: Int64, lengths: Int64, start: Int64, length: Int64, pad: int) -> tuple[Int64, Int64]:
    """Return `[CLS] x[crop] [SEP]` of rows `[CLS] x [SEP]`, padded, and its lengths; 0 where `length` is 0."""
    sizes = np.where(length > 0, length + 2, 0)
    # source [B, Tb]: the original column that each position of the crop reads
    columns = np.arange(max(1, int(sizes.max())))
    source = np.where(columns == 0, 0, columns + start[:, None])
    source = np.where(columns == sizes[:, None] - 1, lengths[:, None] - 1, source)
    inside = columns < sizes[:, None]
    return np.where(inside, np.take_along_axis(original, np.where(inside, source, 0), axis=1), pad), sizes


def rows_of_choices(
    columns: Mapping[str, Ragged], roles: Mapping[str, Role]
) -> tuple[dict[str, Ragged], dict[str, Tensor]]:
    """Split multiple-choice examples into one row per choice; return `choices` [B] and `label` [B] too, int64.

    Rows are in the order of the examples, then of their choices. Filler becomes one empty row with label -100. The
    `input_ids` of an example are those of all choices end to end.

    Example (an example of two choices, and filler):
        >>> lists = {"input_ids": [[7, 8, 9], []], "choice_starts": [[0, 2], []], "choice": [[1], []]}
        >>> columns = {name: Ragged.from_lists(rows, np.int64) for name, rows in lists.items()}
        >>> rows, chosen = rows_of_choices(columns, {})
        >>> [row.tolist() for row in rows["input_ids"]], chosen["choices"].tolist(), chosen["label"].tolist()
        ([[7, 8], [9], []], [2, 1], [1, -100])
    """
    # row bounds in the flat ids: the starts of all choices, and of examples without any
    ids, offsets = columns["input_ids"].values, columns["input_ids"].offsets
    empty = Ragged(np.zeros(0, np.int64), np.zeros(len(offsets), np.int64))
    starts, examples = flatten(columns.get("choice_starts", empty))
    counts = np.bincount(examples, minlength=len(offsets) - 1)
    begins = np.sort(np.concatenate((offsets[:-1][examples] + starts, offsets[:-1][counts == 0])))
    rows: dict[str, Ragged] = {"input_ids": Ragged(ids, np.append(begins, offsets[-1]))}
    # move stored positions from the example to the row that contains them
    for name, role in roles.items():
        if role.of == "input_ids" and not role.head and name in columns:
            positions, example = flatten(columns[name])
            positions += offsets[:-1][example]
            row = np.searchsorted(begins, positions, side="right") - 1
            sizes = np.bincount(row, minlength=len(begins))
            rows[name] = Ragged(positions - begins[row], np.concatenate(([0], np.cumsum(sizes))))
    label = one_a_row(columns.get("choice", empty), IGNORED)
    return rows, {"choices": torch.from_numpy(np.maximum(counts, 1)), "label": torch.from_numpy(label)}
