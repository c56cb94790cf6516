"""Build the labels of a micro-batch (positions, ids, weights), and its decoder inputs."""

from collections.abc import Mapping, Sequence
from functools import lru_cache, reduce
from typing import Final

import numpy as np
import torch
from torch import Tensor

from clozeline.arrays import Int64
from clozeline.columns import FIELDS, IGNORED, Role
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.model.layers.masks import (
    BLOCKED,
    batch_padding,
    pair_mask,
    plan_attention,
    prefix_mask,
)
from clozeline.pipeline.kernels.sampling import draw
from clozeline.pipeline.rows import Ragged
from clozeline.seeding import ROLES, hash64, mix
from clozeline.train.data.stream.padding import (
    empty_rows,
    expand_positions,
    flatten,
    pad_rows,
    part_counts,
    restarting_positions,
    scalar_column,
)

_STARTS: Final = "target_document_starts"

_DENSE_TENSORS: Final = frozenset(
    {
        *(
            "input_ids",
            "lengths",
            "left_padding",
            "row_weight",
            "label_index",
            "label_ids",
            "position_ids",
            "type_ids",
        ),
        *("segment_ids", "attention", "prefix_length", "objective"),
    }
)
"""Tensors that `dense_labels` reads, or that it does not need."""
_DENSE_DOCUMENTS: Final = frozenset({"document_ids", "cu_seqlens", "max_seqlen"})
_DENSE_TARGETS: Final = frozenset({"decoder_input_ids", "decoder_lengths", "decoder_position_ids"})
"""The same for encoder-decoders; a Hugging Face model has no mask for packed documents there."""

TARGET_END: Final = -2
"""Decoder inputs start with the last id of the row's target."""


def build_labels(
    columns: Mapping[str, Ragged], width: int, previous: bool | Int64 = False
) -> dict[str, Tensor]:
    """Return the stored labels; rows with `previous` predict them one position earlier."""
    positions, rows = flatten(columns["label_positions"])
    ids, _ = flatten(columns["label_ids"])

    if previous is not False:
        positions = positions - (previous if previous is True else previous[rows])
        if len(positions) and positions.min() < 0:
            raise IntegrityError(
                "a label at position 0 cannot be predicted from the position before it "
                "(predict_from)"
            )

    return {
        "label_index": torch.from_numpy(rows * width + positions),
        "label_ids": torch.from_numpy(ids),
    }


def build_tag_labels(columns: Mapping[str, Ragged], width: int) -> dict[str, Tensor]:
    """Return the word tags, each at a token of its word."""
    return build_labels(
        {"label_positions": columns["tag_positions"], "label_ids": columns["tags"]}, width
    )


def build_permutation_labels(columns: Mapping[str, Ragged], ids: Int64) -> dict[str, Tensor]:
    """Return the labels of permuted language modeling, and `rank` [B, T] from `prediction_order`.

    The rank is 0 for context and r + 1 for the r-th prediction. Labels are in the order of
    prediction.
    """
    positions, rows = flatten(columns["prediction_order"])
    counts = np.bincount(rows, minlength=len(ids))
    rank = np.zeros(ids.shape, np.int64)
    rank[rows, positions] = (
        1 + np.arange(len(positions)) - np.repeat(np.cumsum(counts) - counts, counts)
    )
    return {
        "rank": torch.from_numpy(rank),
        "label_index": torch.from_numpy(rows * ids.shape[1] + positions),
        "label_ids": torch.from_numpy(ids[rows, positions].astype(np.int64)),
    }


@lru_cache(maxsize=64)
def _predicting_indices(rows: int, width: int) -> Int64:
    return np.arange(rows * width).reshape(rows, width)[:, :-1].reshape(-1)


def build_next_token_labels(
    ids: Int64, lengths: Int64, prefix: Int64 | None, starts: Int64 | None
) -> dict[str, Tensor]:
    """Return next-token labels: token i is predicted at position i - 1.

    Labels start after the prefix; the first token of a document is not a label.
    """
    # full rows without prefix or documents: shared indices
    rows, width = ids.shape

    if prefix is None and starts is None and int(lengths.min()) == width:
        return {
            "label_index": torch.from_numpy(_predicting_indices(rows, width).copy()),
            "label_ids": torch.from_numpy(ids[:, 1:].astype(np.int64).reshape(-1)),
        }

    # mask [B, T] of the tokens that are labels
    columns = np.arange(width)
    first = np.ones(rows, np.int64) if prefix is None else np.maximum(prefix, 1)
    is_label = (columns >= first[:, None]) & (columns < lengths[:, None])
    if starts is not None:
        is_label &= starts == 0
    index = np.flatnonzero(is_label)
    return {
        "label_index": torch.from_numpy(index - 1),
        "label_ids": torch.from_numpy(ids.reshape(-1)[index].astype(np.int64, copy=False)),
    }


def build_label_weights(
    columns: Mapping[str, Ragged], tensors: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return label weights [N], and each row's part of the divisor of the loss [B].

    Defaults: weight 1, and the number of labels of the row.
    """
    rows = (
        tensors["label_index"].numpy()
        // tensors.get("decoder_input_ids", tensors["input_ids"]).shape[1]
    )
    weights = np.ones(len(tensors["input_ids"]), np.float32)
    counts = np.bincount(rows, minlength=len(tensors["lengths"]))
    if "label_weight" in columns:
        weights = scalar_column(columns["label_weight"], 1.0, np.float32)
    if "label_count" in columns:
        stored = scalar_column(columns["label_count"], -1)
        counts = np.where(stored < 0, counts, stored)

    return {
        "label_weight": torch.from_numpy(weights[rows]),
        "label_count": torch.from_numpy(counts),
    }


def values_of_labels(roles: Mapping[str, Role]) -> list[str]:
    """Return the columns with several values of each label."""
    own = {name for name, role in roles.items() if role.use == "label" and not role.of}
    return sorted(own & FIELDS.keys())


def build_label_values(
    names: Sequence[str], columns: Mapping[str, Ragged], tensors: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return columns with several values of each label, [N, k] in the order of `label_ids`.

    Without token labels there is one row per row of the batch, [B, k], 0 in filler.

    Raises:
        IntegrityError: the number of values is not a multiple of the number of labels.
    """
    # one row per label, or one per row of the batch if there are no token labels
    scores = {}

    for name in names:
        dtype = np.dtype(FIELDS[name].dtype)
        values = columns.get(name, empty_rows(len(tensors["row_weight"]), dtype))
        if "label_ids" not in tensors:
            scores[name] = torch.from_numpy(pad_rows(values, 0, dtype)[0].astype(dtype, copy=False))
            continue

        flat = values.values
        labels = len(tensors["label_ids"])
        if len(flat) % labels if labels else len(flat):
            raise IntegrityError(
                f"{name}: {len(flat)} stored values for {labels} labels: make the column set again"
            )

        scores[name] = torch.from_numpy(
            flat.astype(dtype).reshape(labels, len(flat) // labels if labels else 0)
        )

    return scores


def build_target_rows(
    columns: Mapping[str, Ragged],
    tensors: Mapping[str, Tensor],
    begin: int | Int64,
    pad: int,
    isolate_documents: bool,
) -> dict[str, Tensor]:
    """Return decoder inputs: the target shifted right; every target position is a label.

    MASS targets (`target_start`) keep their positions in the source, and start with the source
    token before them.

    Args:
        columns: list columns with `target_ids`.
        tensors: tensors of the encoder.
        begin: first id of all rows, or of each row [B]; `TARGET_END`: the last id of the row's
            target (mBART).
        pad: id of padding.
        isolate_documents: start each document with `begin`, at position 0.
    """
    # shift the targets right [B, T]
    targets, lengths = pad_rows(columns["target_ids"], pad)
    shape = targets.shape
    in_order = np.arange(targets.shape[1])
    is_token = in_order < lengths[:, None]
    inputs = np.empty_like(targets)
    if np.any(np.equal(begin, TARGET_END)):
        last = targets[np.arange(len(targets)), np.maximum(lengths - 1, 0)]
        begin = np.where(np.equal(begin, TARGET_END), last, begin)

    inputs[:, 0] = begin
    inputs[:, 1:] = targets[:, :-1]
    positions = None
    documents = None

    # start every document with `begin`, at position 0
    if isolate_documents:
        starts = (
            part_counts(columns[_STARTS], *shape)
            if _STARTS in columns
            else np.zeros(shape, np.int64)
        )
        documents = np.maximum(np.cumsum(starts, axis=1) - 1, 0)
        starts[:, 0] = 1
        rows, opened = np.nonzero(starts)
        inputs[rows, opened] = np.broadcast_to(begin, shape[:1])[rows]
        positions = restarting_positions(starts)

    if "target_start" in columns:
        positions = np.broadcast_to(in_order, shape) if positions is None else positions
        positions = _align_with_source(inputs, columns, tensors, positions)

    # pad, and collect the labels
    inputs[~is_token] = pad
    index = np.flatnonzero(is_token)
    decoder = _decoder_tensors(inputs, lengths, index, targets.reshape(-1)[index])
    if positions is not None:
        decoder["decoder_position_ids"] = torch.from_numpy(np.where(is_token, positions, 0))
    if documents is not None:
        decoder["decoder_document_ids"] = torch.from_numpy(documents)
    return decoder


def _align_with_source(
    inputs: Int64, columns: Mapping[str, Ragged], tensors: Mapping[str, Tensor], positions: Int64
) -> Int64:
    """Return the positions of targets in the source [B, T].

    Also write the source token before each target into `inputs`.
    """
    source = tensors["input_ids"].numpy()
    source_positions = tensors["position_ids"].numpy()
    # one target per row or document [N]: its start in the source, its row, and its first decoder
    # column
    starts, row = flatten(columns["target_start"])
    heads = np.zeros_like(starts)
    if _STARTS in columns:
        documents, in_row = flatten(columns[_STARTS])
        heads[np.isin(row, in_row)] = documents[np.isin(in_row, row)]

    # start each target with the source token before it, unless it is the first of its text
    begins = source_positions[row, starts]
    inside = np.flatnonzero(begins)
    inputs[row[inside], heads[inside]] = source[row[inside], starts[inside] - 1]

    # shift the positions of each part by the offset of its first column
    offsets = np.zeros_like(inputs)
    offsets[row, heads] = begins
    shifted: Int64 = positions + np.take_along_axis(
        offsets, np.arange(inputs.shape[1]) - positions, axis=1
    )
    return shifted


def build_decoder_rows(
    columns: Mapping[str, Ragged],
    tensors: Mapping[str, Tensor],
    lengths: Int64,
    begin: int | Int64,
    pad: int,
    mask: int,
) -> dict[str, Tensor]:
    """Return decoder inputs for masked positions.

    The input is the label of the previous position, or [MASK] if it has no label. Each row starts
    with `begin`, or each document if documents do not see each other.
    """
    # write each label one column to the right, unless it would leave its row
    rows, width = tensors["input_ids"].shape
    inputs = np.full((rows, width), mask, np.int64)
    labels = build_labels(columns, width)
    index = labels["label_index"].numpy()
    ids = labels["label_ids"].numpy()
    inside = index % width + 1 < np.repeat(lengths, width)[index]
    inputs.reshape(-1)[index[inside] + 1] = ids[inside]

    # opening [B, T]: the first position of each row or document
    opening = np.zeros((rows, width), np.bool_)
    opening[:, 0] = True
    documents = {}

    if "document_ids" in tensors:
        opening = tensors["position_ids"].numpy() == 0
        documents = {
            "decoder_position_ids": tensors["position_ids"],
            "decoder_document_ids": tensors["document_ids"],
        }

    inputs = np.where(opening, np.broadcast_to(np.asarray(begin), rows)[:, None], inputs)
    inputs[np.arange(width) >= lengths[:, None]] = pad
    return _decoder_tensors(inputs, lengths, index, ids) | documents


def build_copied_rows(
    ids: Int64, lengths: Int64, begin: int | Int64, pad: int
) -> dict[str, Tensor]:
    """Return decoder inputs of rows that both stacks read: the row shifted right (BART)."""
    first = np.broadcast_to(np.asarray(begin), len(ids))[:, None]
    inputs = np.concatenate((first, ids[:, :-1]), axis=1)
    inputs[np.arange(inputs.shape[1]) >= lengths[:, None]] = pad
    return _decoder_inputs(inputs, lengths)


def _decoder_inputs(inputs: Int64, lengths: Int64) -> dict[str, Tensor]:
    return {
        "decoder_input_ids": torch.from_numpy(inputs),
        "decoder_position_ids": expand_positions(*inputs.shape),
        "decoder_lengths": torch.from_numpy(np.maximum(lengths, 1)),
    }


def _decoder_tensors(inputs: Int64, lengths: Int64, index: Int64, ids: Int64) -> dict[str, Tensor]:
    labels = {"label_index": torch.from_numpy(index), "label_ids": torch.from_numpy(ids)}
    return _decoder_inputs(inputs, lengths) | labels


def dense_labels(tensors: Mapping[str, Tensor], *, next_token: bool = False) -> dict[str, Tensor]:
    """Return the inputs of a Hugging Face model: dense labels, -100 where there is no loss.

    A model that has no such input raises; to train without an input on purpose, drop it from the
    result.

    Args:
        tensors: tensors of a `Batch`; filler rows have no labels.
        next_token: whether the model is causal and shifts labels itself; each label then stays at
            its token.

    Returns:
        `input_ids`, `attention_mask` and `labels`, int64 [B, T]; for an encoder-decoder also
        `decoder_input_ids`, with `labels` of the same length. If rows have segments,
        `token_type_ids`; if positions do not count from the start of the row, `position_ids`,
        from 0 (add 2 for RoBERTa). If documents do not see each other, or with a prefix or
        attention modes, the mask is fp32 [B, 1, T, T], to be added to scores: a model also applies
        it to local layers.

    Raises:
        ConfigurationError: rows have tensors for which these models have no input.

    Example, label 7 at position 1 of the only row of three tokens:
        label_index [1], label_ids [7]    labels [-100, 7, -100]
    """
    # refuse tensors that the model would ignore
    paired = "decoder_input_ids" in tensors
    if unread := sorted(
        tensors.keys() - _DENSE_TENSORS - (_DENSE_TARGETS if paired else _DENSE_DOCUMENTS)
    ):
        raise ConfigurationError(
            f"dense_labels: rows with {', '.join(unread)}: a Hugging Face model has no input for "
            "that and would learn another objective; use a model of Clozeline, or drop these "
            "tensors to train without them on purpose"
        )

    # the inputs
    ids = tensors["input_ids"].long()
    inputs = {"input_ids": ids, "attention_mask": _attention_mask(tensors, next_token)}
    if not torch.equal(tensors["position_ids"], expand_positions(*ids.shape)):
        inputs["position_ids"] = tensors["position_ids"]
    if "type_ids" in tensors:
        inputs["token_type_ids"] = tensors["type_ids"]
    labeled = ids
    if paired:
        labeled = inputs["decoder_input_ids"] = tensors["decoder_input_ids"]
        _refuse_moved_targets(tensors["decoder_position_ids"], tensors["decoder_lengths"])

    # the labels
    labels = torch.full_like(labeled, IGNORED)
    labels.view(-1)[tensors["label_index"] + int(next_token)] = tensors["label_ids"]
    labels[tensors["row_weight"] == 0] = IGNORED
    return inputs | {"labels": labels}


def _attention_mask(tensors: Mapping[str, Tensor], causal: bool) -> Tensor:
    """Return which positions are tokens, int64 [B, T].

    If positions read only a part of their row: return fp32 [B, 1, T, T] to add to scores.
    """
    padding = batch_padding(tensors)
    pairs = pair_mask(tensors)
    prefix = None
    if not {"attention", "decoder_input_ids"} & tensors.keys() and "prefix_length" in tensors:
        causal = True
        prefix = prefix_mask(tensors["prefix_length"], tensors["input_ids"].shape[1])

    visible = padding
    if pairs is not None or prefix is not None:
        visible = plan_attention(None, padding, causal, pairs=pairs, prefix=prefix).mask

    assert visible is not None

    return (
        visible[:, 0, 0].long()
        if visible is padding
        else torch.zeros(visible.shape).masked_fill(~visible, BLOCKED)
    )


def _refuse_moved_targets(positions: Tensor, lengths: Tensor) -> None:
    expected = torch.arange(positions.shape[1]).expand(positions.shape)
    if bool(((positions != expected) & (expected < lengths[:, None])).any()):
        raise ConfigurationError(
            "dense_labels: decoder_position_ids do not count from the start of the target, and a "
            "Hugging Face encoder-decoder has no input for them: use a model of Clozeline"
        )


def draw_sample_bits(seed: int, step: int, origin: Int64, tensors: Mapping[str, Tensor]) -> Tensor:
    """Return random bits below 2^32 for each label, int64 [N].

    A generator samples replacement tokens with them. They depend on the stored row, `origin`
    [B, 3], not on its batch: ranks, micro-batches and padding change nothing. `step` is the
    optimizer step, 0 in an evaluation.
    """
    # one key per row from (seed, step, origin), then as many bits as the row has labels
    parts = origin.astype(np.uint64)
    base = np.full(len(parts), hash64("generator", seed, step), np.uint64)
    keys = reduce(lambda key, part: mix(key + part), parts.T, base)
    rows = tensors["label_index"].numpy() // tensors["input_ids"].shape[1]
    bits = draw(keys, ROLES, np.bincount(rows, minlength=len(parts))) >> np.uint64(32)
    return torch.from_numpy(bits.astype(np.int64))
