"""From stored features to the tensors a model takes: one rule for each (feature, architecture), none per objective.

Everything is vectorised over the micro-batch; rows are padded to its longest row, and equally long rows not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.arrays import Int64
from pipeline.errors import ConfigurationError
from pipeline.shards import Manifest
from train.stream.padding import (
    document_bounds,
    flatten,
    one_a_row,
    pad_rows,
    part_numbers,
    restarting_positions,
    start_marks,
)
from train.stream.row_buffer import Column

__all__ = ["Architecture", "Batch", "Collate"]

Architecture: TypeAlias = Literal["encoder", "decoder", "encoder_decoder"]

_KNOWN = ("input_ids", "label_positions", "label_ids", "target_ids", "document_starts", "segment_starts",
          "prefix_length", "attention", "target_start")  # fmt: skip
_DECISIVE = {
    "attention": ("which places a place may read", "encoder"),
    "prediction_order": ("which places are predicted, and when", None),
    "target_start": ("at which position the decoder begins", "encoder_decoder"),
}
"""Columns that a model may not overlook, for it would learn another objective: their meaning, and who reads them."""
_PAIRS = (("attention", "prefix_length"), ("label_positions", "label_ids"), ("label_ids", "label_positions"))
_FULL_AT_ONCE = 32
_TYPES_OF_MODE = np.array([0, 2, 3, 4])
_PREFIX_MODE = 3


class Batch(NamedTuple):
    """One micro-batch, which belongs to the caller: writing into its tensors changes no other batch.

    Only the rows of `position_ids` may share memory with each other: position ids of equally long rows are one expanded
    row.

    Args:
        tensors: model inputs by name, `row_weight` among them.
        row_weight: float32 [B]; 0 = filler row.
        origin: int64 [B, 3]: source, stored block (over all shards), row in it; -1 for filler.
        samples: position of the stream after the global batch that this is a part of.
        epoch: the same in epochs.
    """

    tensors: dict[str, Tensor]
    row_weight: Tensor
    origin: NDArray[np.int64]
    samples: int
    epoch: float


class Collate:
    """Builds the tensors of a micro-batch.

    Args:
        architecture: encoder, decoder or encoder_decoder.
        columns: list columns of the examples; those without a rule here (noise kept for inversion) are not read.
        special_ids: ids by name; `pad` is needed, `mask` where an encoder-decoder predicts masked positions.
        decoder_start: id that decoder inputs begin with; needed by encoder-decoders.
        padding_side: of the frame.
        cross_documents: whether attention and loss run across `document_starts`; if not, `document_ids` is given,
            positions restart with every document and no label stands across a boundary.
        token_dtype: type of `input_ids`; labels are int64 always.

    Raises:
        ConfigurationError: a needed id or column is absent.
    """

    def __init__(
        self,
        architecture: Architecture,
        columns: Iterable[str],
        special_ids: Mapping[str, int],
        *,
        decoder_start: int | None = None,
        padding_side: str = "right",
        cross_documents: bool = True,
        token_dtype: str = "int64",
    ) -> None:
        have = set(columns)
        self.architecture = architecture
        self.token_dtype = token_dtype
        self.columns = tuple(name for name in _KNOWN if name in have)
        self._decoder_start = -1 if decoder_start is None else decoder_start
        self._mask = special_ids.get("mask", -1)
        self._restart = "document_starts" in have and not cross_documents
        if not self._restart:
            self.columns = tuple(name for name in self.columns if name != "document_starts")
        self._spare: dict[tuple[int, ...], Iterator[tuple[Tensor, Tensor, Tensor]]] = {}
        self._bare = architecture == "encoder" and self.columns == ("input_ids",)
        if "input_ids" not in have or "pad" not in special_ids:
            raise ConfigurationError(f"batches need the column input_ids and a pad id; columns: {sorted(have)}")
        self._pad = special_ids["pad"]
        if padding_side != "right":
            raise ConfigurationError(f"padding_side '{padding_side}': batches are padded on the right only")
        for name in sorted(have & _DECISIVE.keys()):
            meaning, reader = _DECISIVE[name]
            if architecture != reader:
                raise ConfigurationError(
                    f"the column {name} says {meaning}; no {architecture} reads it, so training would learn another "
                    "objective"
                )
        for name, beside in _PAIRS:
            if name in have and beside not in have:
                raise ConfigurationError(f"the column {name} needs {beside} beside it; columns: {sorted(have)}")
        if architecture == "encoder_decoder":
            self._check_decoder(have)

    @staticmethod
    def from_manifests(manifests: Sequence[Manifest], token_dtype: str = "int64") -> Collate:
        """The rules that example sets of one stream share.

        Raises:
            ConfigurationError: they are for different batches: another architecture, frame, tokenizer or columns.
        """
        first = Collate.from_manifest(manifests[0])
        for manifest in manifests[1:]:
            other = Collate.from_manifest(manifest)
            for name, value in vars(first).items():
                if name != "_spare" and vars(other)[name] != value:
                    raise ConfigurationError(
                        f"shard sets '{manifests[0].name}' and '{manifest.name}' cannot be read by one stream: their "
                        f"batches differ in {name.lstrip('_')}: {value} and {vars(other)[name]}"
                    )
            if manifest.tokenizer.fingerprint != manifests[0].tokenizer.fingerprint:
                raise ConfigurationError(
                    f"shard sets '{manifests[0].name}' and '{manifest.name}' were made with two tokenizers"
                )
        first.token_dtype = token_dtype
        return first

    @staticmethod
    def from_manifest(manifest: Manifest) -> Collate:
        """The rules for an example set."""
        objective = manifest.objective
        if objective is None:
            raise ConfigurationError(
                f"shard set '{manifest.name}' holds {manifest.kind}, not examples: name the manifest below corrupt/, "
                "or give the stream a transform and its collate"
            )
        return Collate(
            objective.architecture,
            [spec.name for spec in manifest.specs if spec.kind == "list"],
            manifest.tokenizer.special_ids,
            decoder_start=objective.frame.decoder_start,
            padding_side=objective.frame.padding_side,
            cross_documents=objective.options.get("cross_documents", True),
        )

    def __call__(self, columns: Mapping[str, Column], row_weight: NDArray[np.float32] | None) -> dict[str, Tensor]:
        """Tensors by name; int64 but for `row_weight` and `cu_seqlens`. Shapes: [B, T], lengths [B], labels [N].

        Labels are flat into B * T. Where documents are kept apart there are also `document_ids` [B, T], and for
        kernels over flat rows `cu_seqlens` int32 [documents + 1] over the flattened batch and `max_seqlen`.
        """
        column = columns["input_ids"]
        ids, lengths = pad_rows(column, self._pad, self.token_dtype)
        tensors = {"input_ids": torch.from_numpy(ids)}
        if row_weight is None and ids is column:
            tensors["position_ids"], tensors["lengths"], tensors["row_weight"] = self._of_full_rows(ids.shape)
        else:
            weight = np.ones(len(ids), np.float32) if row_weight is None else row_weight
            tensors["position_ids"], tensors["row_weight"] = _positions(*ids.shape), torch.from_numpy(weight)
            tensors["lengths"] = torch.from_numpy(np.maximum(lengths, 1))
        if self._bare:
            return tensors
        starts = None
        if self._restart:
            starts = start_marks(columns["document_starts"], *ids.shape)
            tensors["document_ids"] = torch.from_numpy(np.maximum(np.cumsum(starts, axis=1) - 1, 0))
            tensors["position_ids"] = torch.from_numpy(restarting_positions(starts))
            bounds = document_bounds(starts, lengths)
            tensors["cu_seqlens"] = torch.from_numpy(bounds.astype(np.int32))
            tensors["max_seqlen"] = torch.tensor(int(np.diff(bounds).max()))
        if "segment_starts" in columns:
            tensors["type_ids"] = torch.from_numpy(part_numbers(columns["segment_starts"], lengths, ids.shape[1]))
        if "prefix_length" in columns:
            tensors["prefix_length"] = torch.from_numpy(one_a_row(columns["prefix_length"]))
        if "attention" in columns:
            mode = one_a_row(columns["attention"])
            types = _types_of_modes(
                mode, tensors["prefix_length"].numpy(), tensors.get("type_ids"), lengths, ids.shape[1]
            )
            tensors |= {"attention": torch.from_numpy(mode), "type_ids": torch.from_numpy(types)}
        tensors.update(self._labels(columns, ids, lengths, starts))
        return tensors

    def _of_full_rows(self, shape: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
        """Position ids, lengths and weights of one batch of equally long rows without filler."""
        spare = self._spare.get(shape)
        found = None if spare is None else next(spare, None)
        if found is None:
            self._spare = {shape: (spare := _full_rows(*shape))}
            found = next(spare)
        return found

    def _labels(
        self, columns: Mapping[str, Column], ids: Int64, lengths: Int64, starts: NDArray[np.int64] | None
    ) -> dict[str, Tensor]:
        if self.architecture == "encoder_decoder":
            if "target_ids" in columns:
                start = one_a_row(columns["target_start"]) if "target_start" in columns else None
                return self._targets(columns["target_ids"], ids, start)
            return self._masked_targets(columns, ids.shape, lengths)
        if "label_positions" in columns:
            return _stored_labels(columns, ids.shape[1])
        if self.architecture == "encoder":
            return {}
        prefix = one_a_row(columns["prefix_length"]) if "prefix_length" in columns else None
        return _next_tokens(ids, lengths, prefix, starts)

    def _targets(self, column: Column, source: Int64, start: Int64 | None) -> dict[str, Tensor]:
        """Decoder rows: the target shifted right behind `decoder_start`; every target place is a label.

        A target that stands at place `start` of its source (MASS) keeps its places, and the source token before it
        opens the row. No such target stands at place 0, which says that a row has none.
        """
        targets, lengths = pad_rows(column, self._pad)
        inputs = np.empty_like(targets)
        inputs[:, 0], inputs[:, 1:] = self._decoder_start, targets[:, :-1]
        place = np.arange(targets.shape[1])
        valid = place < lengths[:, None]
        positions = None
        if start is not None:
            inside = np.flatnonzero(start)
            inputs[inside, 0] = source[inside, start[inside] - 1]
            positions = np.where(valid, start[:, None] + place, 0)
        inputs[~valid] = self._pad
        index = np.flatnonzero(valid)
        tensors = self._decoder(inputs, lengths, index, targets.reshape(-1)[index])
        return tensors if positions is None else tensors | {"decoder_position_ids": torch.from_numpy(positions)}

    def _masked_targets(
        self, columns: Mapping[str, Column], shape: tuple[int, ...], lengths: Int64
    ) -> dict[str, Tensor]:
        """Decoder rows for masked positions: the label before where there is one, else [MASK]."""
        inputs = np.full(shape, self._mask, np.int64)
        inputs[np.arange(shape[1]) >= lengths[:, None]] = self._pad
        inputs[lengths > 0, 0] = self._decoder_start
        labels = _stored_labels(columns, shape[1])
        index, ids = labels["label_index"].numpy(), labels["label_ids"].numpy()
        inside = index % shape[1] + 1 < np.repeat(lengths, shape[1])[index]
        inputs.reshape(-1)[index[inside] + 1] = ids[inside]
        return self._decoder(inputs, lengths, index, ids)

    def _decoder(self, inputs: Int64, lengths: Int64, index: Int64, ids: Int64) -> dict[str, Tensor]:
        return {
            "decoder_input_ids": torch.from_numpy(inputs),
            "decoder_position_ids": _positions(*inputs.shape),
            "decoder_lengths": torch.from_numpy(np.maximum(lengths, 1)),
            "label_index": torch.from_numpy(index),
            "label_ids": torch.from_numpy(ids),
        }

    def _check_decoder(self, have: set[str]) -> None:
        if self._decoder_start < 0:
            raise ConfigurationError("an encoder-decoder needs frame.decoder_start in the manifest")
        if "target_ids" not in have and not ({"label_positions", "label_ids"} <= have and self._mask >= 0):
            raise ConfigurationError("an encoder-decoder needs target_ids, or labels and a mask id")


@lru_cache(maxsize=64)
def _predicting(rows: int, width: int) -> Int64:
    """Flat places of all tokens but each row's last, which predict the next token in full rows: to be copied."""
    return np.arange(rows * width).reshape(rows, width)[:, :-1].reshape(-1)


def _positions(rows: int, width: int) -> Tensor:
    """Position ids 0 .. width-1 for every row, one row in memory."""
    return torch.arange(width).expand(rows, width)


def _full_rows(rows: int, width: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Position ids, lengths and weights of 1 for several batches of equally long rows, each with memory of its own.

    One tensor operation serves them all: made one by one, they would cost a small batch a tenth of its time.
    """
    positions = torch.arange(width).repeat(_FULL_AT_ONCE, 1)[:, None].expand(-1, rows, -1)
    lengths = torch.full((_FULL_AT_ONCE, rows), width)
    return zip(positions.unbind(), lengths.unbind(), torch.ones(_FULL_AT_ONCE, rows).unbind(), strict=True)


def _stored_labels(columns: Mapping[str, Column], width: int) -> dict[str, Tensor]:
    positions, rows = flatten(columns["label_positions"])
    ids, _ = flatten(columns["label_ids"])
    return {"label_index": torch.from_numpy(rows * width + positions), "label_ids": torch.from_numpy(ids)}


def _next_tokens(
    ids: Int64, lengths: Int64, prefix: Int64 | None, starts: NDArray[np.int64] | None
) -> dict[str, Tensor]:
    """Token i is a label, predicted at i - 1, from max(1, prefix) on, unless it opens a document."""
    rows, width = ids.shape
    if prefix is None and starts is None and int(lengths.min()) == width:
        return {
            "label_index": torch.from_numpy(_predicting(rows, width).copy()),
            "label_ids": torch.from_numpy(ids[:, 1:].astype(np.int64).reshape(-1)),
        }
    place = np.arange(width)
    first = np.ones(rows, np.int64) if prefix is None else np.maximum(prefix, 1)
    valid = (place >= first[:, None]) & (place < lengths[:, None])
    if starts is not None:
        valid &= starts == 0
    index = np.flatnonzero(valid)
    return {
        "label_index": torch.from_numpy(index - 1),
        "label_ids": torch.from_numpy(ids.reshape(-1)[index].astype(np.int64, copy=False)),
    }


def _types_of_modes(mode: Int64, prefix: Int64, segments: Tensor | None, lengths: Int64, width: int) -> Int64:
    """Segment types by which UniLM tells the modes of attention apart (arXiv 1905.03197 §2.1).

    The number of the segment in bidirectional rows, 2 left to right, 3 right to left, 4 in a prefix and 5 behind it; 0
    on padding.
    """
    place = np.arange(width)
    types: Int64 = _TYPES_OF_MODE[mode][:, None] + ((mode == _PREFIX_MODE)[:, None] & (place >= prefix[:, None]))
    types[place >= lengths[:, None]] = 0
    return types if segments is None else np.where(mode[:, None] == 0, segments.numpy(), types)
