"""Build the tensors of a micro-batch from stored columns.

Rows are padded to the longest row of the micro-batch (`padding.py`). `labels.py` builds labels and
decoder inputs, `head_features.py` and `fields.py` the tensors that single heads read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clozeline.arrays import Int64
from clozeline.columns import COLUMNS, Role, names_of, refuse_reserved
from clozeline.errors import ConfigurationError
from clozeline.pipeline.row_form import RowForm
from clozeline.pipeline.rows import Ragged
from clozeline.pipeline.shards import Manifest
from clozeline.train.data.stream.fields import build_fields
from clozeline.train.data.stream.head_features import (
    HeadBatch,
    find_head_rules,
    rows_of_choices,
)
from clozeline.train.data.stream.labels import (
    TARGET_END,
    build_copied_rows,
    build_decoder_rows,
    build_label_values,
    build_label_weights,
    build_labels,
    build_next_token_labels,
    build_permutation_labels,
    build_tag_labels,
    build_target_rows,
    values_of_labels,
)
from clozeline.train.data.stream.padding import (
    bound_tensors,
    document_bounds,
    empty_rows,
    expand_positions,
    pad_left,
    pad_rows,
    paired_bounds,
    restarting_positions,
    scalar_column,
    segment_tensors,
    start_marks,
    types_of_modes,
)

Architecture: TypeAlias = Literal["encoder", "decoder", "encoder_decoder"]


class Collate:
    """Builds the tensors of a micro-batch.

    Args:
        architecture: encoder, decoder or encoder_decoder.
        roles: roles of the list columns of the examples; columns with the use `undo` are ignored.
        special_ids: ids by name; `pad` is needed, `mask` if an encoder-decoder predicts masked
            positions.
        form: what the rows look like; default: `RowForm()`. An encoder-decoder needs a
            `decoder_start`; only rows of an encoder are padded on the left.

    With `document_starts`, documents do not see each other: batches have `document_ids`, positions
    restart with every document, and no label crosses a boundary.

    Raises:
        ConfigurationError: a needed id or column is missing.
    """

    def __init__(
        self,
        architecture: Architecture,
        roles: Mapping[str, Role],
        special_ids: Mapping[str, int],
        form: RowForm | None = None,
    ) -> None:
        form = form or RowForm()
        self.architecture = architecture
        self._use_roles({name: role for name, role in roles.items() if role.use != "undo"})
        start = form.decoder_start
        self._decoder_start = (
            TARGET_END if start == "target_end" else -1 if start is None else start
        )
        self._mask = special_ids.get("mask", -1)

        # choose the rules for positions and labels
        self._previous = form.predict_from == "previous"
        self._restart_segments = form.restarts_segments
        causal = architecture == "decoder" or "attention" in self.roles
        self.predicts_next = causal and self.roles.keys().isdisjoint(
            {"label_positions", "tags", "choice_starts"}
        )
        """Every token but the first is a label, predicted at the position before it."""
        self._copied = architecture == "encoder_decoder" and self.roles.keys().isdisjoint(
            {"target_ids", "label_ids"}
        )
        """The decoder reads the row of the encoder."""
        self._parts: tuple[Collate, ...] = ()
        self._objectives = np.zeros(0, np.int64)
        self._left = form.padding_side == "left"
        self._ids_only = (
            architecture == "encoder" and self.columns == ("input_ids",) and not self._left
        )

        # refuse columns and ids that do not go together
        _check_tags(self.roles)
        if "input_ids" not in self.roles:
            raise ConfigurationError(f"batches need the column input_ids; columns: {sorted(roles)}")
        if "pad" not in special_ids:
            have_ids = ", ".join(special_ids) or "none"
            raise ConfigurationError(
                "batches need the special token 'pad', the tokenizer of the shards has: "
                f"{have_ids}; make them with `tokenizer.add: true`, or give the role to a piece: "
                "`tokenizer.specials='{pad: PIECE}'`"
            )

        self._pad = special_ids["pad"]

        if self._left and architecture != "encoder":
            raise ConfigurationError(
                f"padding_side 'left': rows of a {architecture} are padded on the right only"
            )

        if architecture == "encoder_decoder":
            if start is None:
                raise ConfigurationError(
                    "an encoder-decoder needs frame.decoder_start in the manifest"
                )
            inserted = "label_ids" in self.roles and self._mask >= 0 and start != "target_end"
            if "target_ids" not in self.roles and not inserted and not self._copied:
                raise ConfigurationError(
                    "an encoder-decoder needs target_ids, or labels and a mask id"
                )

    def _use_roles(self, roles: Mapping[str, Role]) -> None:
        """Choose how columns with these roles become tensors."""
        self.roles = roles
        self._restart = "document_starts" in roles
        self._head_rules = find_head_rules(roles)
        columns_with_rules = {*COLUMNS, *self._head_rules}
        self.fields = {
            name: role.fields(name, roles)
            for name, role in roles.items()
            if name not in columns_with_rules
        }

        """tensors of the columns without a rule, which follow from the role of the column alone"""
        self._refuse_names()

    def _refuse_names(self) -> None:
        """Refuse columns whose tensors would have a name that is taken, or no shape."""
        made: set[str] = set()
        for name, role in self.roles.items():
            refuse_reserved(name, role)
        for name, fields in self.fields.items():
            if taken := made & names_of(fields):
                raise ConfigurationError(
                    f"column {name}: another column also makes the tensor {min(taken)}; rename one "
                    "of the columns"
                )
            made |= names_of(fields)
            if "choice_starts" in self.roles and self.roles[name].of:
                raise ConfigurationError(
                    f"column {name}: expected one value or several values of a row, as the rows "
                    f"have choices, got the role {self.roles[name]}: remove it from sets with "
                    "choice_starts"
                )

    @property
    def columns(self) -> tuple[str, ...]:
        """List columns that are read."""
        return tuple(self.roles)

    @staticmethod
    def from_manifests(manifests: Sequence[Manifest]) -> Collate:
        """Return the rules for the example sets of one stream, by the source index of a row.

        Sets may differ in columns and objectives, not in architecture, padding or tokenizer.
        Columns that a row's set does not have are empty.
        """
        # all sets must fit one model
        parts = tuple(Collate.from_manifest(manifest) for manifest in manifests)
        first = parts[0]

        for manifest, part in zip(manifests, parts, strict=True):
            if part._batch_format != first._batch_format:
                raise ConfigurationError(
                    f"shard sets '{manifests[0].name}' and '{manifest.name}' cannot be read by one "
                    "stream: their batches differ in architecture or padding, or in where labels "
                    f"are: {first._batch_format} and {part._batch_format}"
                )

            if manifest.tokenizer.fingerprint != manifests[0].tokenizer.fingerprint:
                both = f"'{manifests[0].name}' and '{manifest.name}'"
                raise ConfigurationError(
                    f"data.shards: the sets {both} were made with two tokenizers; make the later "
                    "one again with the tokenizer of the other: tokenizer.path=OUT, instead of "
                    "train_tokenizer"
                )

        # rules that differ are applied row by row
        if any(part._row_rules != first._row_rules for part in parts):
            if any(values_of_labels(part.roles) for part in parts):
                both = " and ".join(f"'{manifest.name}'" for manifest in manifests[:2])
                raise ConfigurationError(
                    f"shard sets {both} cannot be read by one stream: columns with several "
                    "values of each label belong to the labels of one objective; give all sets of "
                    "the run the same columns, or none"
                )

            merged = copy(first)
            merged._use_roles({name: role for part in parts for name, role in part.roles.items()})
            merged._ids_only = False
            merged._parts = parts
            first = merged
            next_tokens = ("label_positions",) if any(part.predicts_next for part in parts) else ()
            _check_tags({*merged.roles, *next_tokens})

        # number the objectives in order of appearance
        objectives = [manifest.objective for manifest in manifests if manifest.objective]
        keys = [repr(objective) for objective in objectives]
        if len(set(keys)) > 1:
            first._objectives = np.array([list(dict.fromkeys(keys)).index(key) for key in keys])
            first._ids_only = False

        return first

    @property
    def tensor_names(self) -> frozenset[str]:
        """Names of the tensors of every batch."""
        return frozenset(
            self(
                dict.fromkeys(self.columns, empty_rows(1)), np.zeros(1, np.float32), np.full(1, -1)
            )
        )

    def columns_of(self, source: int) -> tuple[str, ...]:
        """Return the list columns that are read from a source."""
        return self._parts[source].columns if self._parts else self.columns

    @property
    def _row_rules(self) -> tuple[object, ...]:
        return (
            set(self.roles),
            self._decoder_start,
            self._previous,
            self.predicts_next,
            self._restart_segments,
        )

    @property
    def _batch_format(self) -> str:
        padded = f"{self.architecture} padded on the left" if self._left else self.architecture
        if self.architecture == "encoder_decoder" and "target_ids" in self.roles:
            return f"{padded} with target_ids"
        padded += " that reads the same row twice" if self._copied else ""
        if "choice_starts" not in self.roles:
            return padded
        return (
            f"{padded} with choices"
            if "choice" in self.roles
            else f"{padded} with pairs in both orders"
        )

    @staticmethod
    def from_manifest(manifest: Manifest) -> Collate:
        """Return the rules for an example set."""
        objective = manifest.objective
        if objective is None:
            raise ConfigurationError(
                f"shard set '{manifest.name}' has {manifest.kind}, not examples: give a folder "
                "below corrupt/, or an Input with a corruption"
            )

        return Collate(
            objective.architecture,
            manifest.roles,
            manifest.tokenizer.special_ids,
            objective.frame,
        )

    def __call__(
        self,
        columns: Mapping[str, Ragged],
        row_weight: NDArray[np.float32] | None,
        sources: Int64 | None = None,
    ) -> dict[str, Tensor]:
        """Return the tensors of a micro-batch by name.

        All are int64, except `row_weight`, `label_weight`, `target` and `cu_seqlens`. Shapes:
        [B, T], lengths [B]; labels [N] are flat indices into B * T. Further tensors:

        - if documents do not see each other: `document_ids` [B, T], and for kernels over flat rows
          `cu_seqlens` int32 [documents + 1] and `max_seqlen`; for targets the same with `decoder_`;
        - if a set declares weights: `label_weight` float32 [N] and `label_count` [B], the part of
          each row in the divisor of the loss;
        - with several objectives: `objective` [B], the index of the row's objective in order of
          appearance; 0 for filler;
        - with multiple choice: each choice is a row of the inputs, and `choices` [B] counts the
          choices of each example;
        - with attention modes: `type_ids` encode mode and segment, and `segment_ids`, if any, the
          segment alone.

        Args:
            columns: list columns; columns that are empty in all rows may be missing.
            row_weight: [B]; None: all are 1.
            sources: source index of each row [B], below 0 for filler; needed if sets differ.
        """
        if "choice_starts" not in self.roles:
            return self._tensors(columns, row_weight, sources)

        # one row per choice
        rows, choice_tensors = rows_of_choices(columns, self.roles)
        counts = choice_tensors["choices"].numpy()
        choice_sources = None if sources is None else np.repeat(sources, counts)
        tensors = self._tensors(rows, np.ones(counts.sum(), np.float32), choice_sources)
        if "objective" in tensors:
            tensors["objective"] = tensors["objective"][np.cumsum(counts) - counts]
        weight = np.ones(len(counts), np.float32) if row_weight is None else row_weight
        choice_tensors["row_weight"] = torch.from_numpy(weight)

        # further columns have one value per example, such as its class
        lists = {name: columns.get(name, empty_rows(len(counts))) for name in self.roles}
        batch = HeadBatch(
            self.roles, lists, choice_tensors, *pad_rows(lists["input_ids"], self._pad), self._pad
        )
        return tensors | choice_tensors | self._build_further(batch)

    def _tensors(
        self,
        columns: Mapping[str, Ragged],
        row_weight: NDArray[np.float32] | None,
        sources: Int64 | None,
    ) -> dict[str, Tensor]:
        """Return the tensors of columns without multiple choice, one row per example."""
        # input ids [B, T], lengths [B], position ids [B, T], weights [B]
        ids, lengths = pad_rows(columns["input_ids"], self._pad)
        weight = np.ones(len(ids), np.float32) if row_weight is None else row_weight
        tensors = {
            "input_ids": torch.from_numpy(ids),
            "position_ids": expand_positions(*ids.shape),
            "lengths": torch.from_numpy(np.maximum(lengths, 1)),
            "row_weight": torch.from_numpy(weight),
        }
        if self._ids_only:
            return tensors
        starts = None
        if len(self._objectives) and sources is not None:
            tensors["objective"] = torch.from_numpy(self._objectives[np.maximum(sources, 0)])

        # documents: document and position ids [B, T], and their bounds in the flat batch
        if self._restart and "document_starts" in columns:
            starts = start_marks(columns["document_starts"], *ids.shape)
            tensors["document_ids"] = torch.from_numpy(np.maximum(np.cumsum(starts, axis=1) - 1, 0))
            tensors["position_ids"] = torch.from_numpy(restarting_positions(starts))
            tensors |= bound_tensors(document_bounds(starts, lengths))

        # segments: type ids and languages [B, T]; `row_sets` [B]: set of each row, if rules differ
        row_sets = None if not self._parts or sources is None else np.maximum(sources, 0)
        parts = self._parts or (self,)
        restarts = np.array([part._restart_segments for part in parts])[
            0 if row_sets is None else row_sets
        ]
        segments = segment_tensors(columns, lengths, ids.shape[1], restarts)
        if "position_ids" in segments:  # positions restart with documents, too
            segments["position_ids"] = torch.minimum(
                segments["position_ids"], tensors["position_ids"]
            )

        tensors |= segments
        if "prefix_length" in columns:
            tensors["prefix_length"] = torch.from_numpy(scalar_column(columns["prefix_length"]))

        # attention modes [B]; type ids then encode the mode as well
        if "attention" in columns:
            mode = scalar_column(columns["attention"])
            prefix = tensors.setdefault("prefix_length", torch.zeros(len(ids), dtype=torch.int64))
            types = types_of_modes(
                mode, prefix.numpy(), tensors.get("type_ids"), lengths, ids.shape[1]
            )
            if "type_ids" in tensors:
                tensors["segment_ids"] = tensors["type_ids"]
            tensors |= {"attention": torch.from_numpy(mode), "type_ids": torch.from_numpy(types)}

        # labels [N] with weights, and the inputs of single heads
        tensors.update(self._labels(columns, tensors, lengths, starts, row_sets))
        if "decoder_document_ids" in tensors:
            tensors.update(paired_bounds(tensors))
        if self._left:
            tensors = pad_left(tensors)
        if "label_weight" in self.roles or "label_count" in self.roles:
            tensors.update(build_label_weights(columns, tensors))
        if names := values_of_labels(self.roles):
            tensors.update(build_label_values(names, columns, tensors))

        # tensors of single heads
        if not (self._head_rules or self.fields) or "choice_starts" in self.roles:
            return tensors
        empty = empty_rows(len(ids))
        lists = {
            name: columns.get(name, empty) for name in (*self.roles, "label_positions", "label_ids")
        }
        batch = HeadBatch(self.roles, lists, tensors, ids, lengths, self._pad, bool(self._parts))
        return tensors | self._build_further(batch)

    def _build_further(self, batch: HeadBatch) -> dict[str, Tensor]:
        """Return the tensors of single heads, by their rules or by the role of one column."""
        tensors: dict[str, Tensor] = {}
        for head in dict.fromkeys(self._head_rules.values()):
            tensors |= head.tensors(batch)
        for name, fields in self.fields.items():
            tensors |= build_fields(fields, self.roles[name], batch)
        return tensors

    def _labels(
        self,
        columns: Mapping[str, Ragged],
        tensors: Mapping[str, Tensor],
        lengths: Int64,
        starts: Int64 | None,
        row_sets: Int64 | None,
    ) -> dict[str, Tensor]:
        """Return labels and decoder inputs; `row_sets` [B]: set of each row, if rules differ."""
        # for an encoder-decoder, return the labels of the decoder
        ids = tensors["input_ids"].numpy()

        if self.architecture == "encoder_decoder":
            begin = (
                self._decoder_start
                if row_sets is None
                else np.array([part._decoder_start for part in self._parts])[row_sets]
            )
            if self._copied:
                tags = build_tag_labels(columns, ids.shape[1]) if "tags" in columns else {}
                return build_copied_rows(ids, lengths, begin, self._pad) | tags
            if "target_ids" in columns:
                return build_target_rows(columns, tensors, begin, self._pad, self._restart)
            return build_decoder_rows(columns, tensors, lengths, begin, self._pad, self._mask)

        # one rule for all rows
        prefix = scalar_column(columns["prefix_length"]) if "prefix_length" in columns else None

        if row_sets is None:
            if "tags" in columns:
                return build_tag_labels(columns, ids.shape[1])
            if "label_positions" in columns:
                return build_labels(columns, ids.shape[1], self._previous)
            if "prediction_order" in columns:
                return build_permutation_labels(columns, ids)
            return (
                build_next_token_labels(ids, lengths, prefix, starts) if self.predicts_next else {}
            )

        # several rules: build the labels of each, then sort all by position
        following = np.array([part.predicts_next for part in self._parts])[row_sets]
        if self.architecture == "encoder":
            prefix = None  # the prefix of an attention mode does not limit the labels
        parts = [build_next_token_labels(ids, np.where(following, lengths, 0), prefix, starts)]
        if "label_positions" in columns:
            previous = np.array([part._previous for part in self._parts])[row_sets]
            parts.append(build_labels(columns, ids.shape[1], previous))

        if "tags" in columns:
            parts.append(build_tag_labels(columns, ids.shape[1]))
        rank = {}
        if "prediction_order" in columns:
            parts.append(build_permutation_labels(columns, ids))
            rank = {"rank": parts[-1]["rank"]}

        index, labels = (
            torch.cat([part[name] for part in parts]) for name in ("label_index", "label_ids")
        )
        order = torch.argsort(index, stable=True)
        return {"label_index": index[order], "label_ids": labels[order], **rank}


def _check_tags(have: Collection[str]) -> None:
    # all heads of a batch read the same labeled positions
    if "tags" in have and not {"label_positions", "prediction_order"}.isdisjoint(have):
        raise ConfigurationError(
            "one stream cannot read both tags (classes of words) and labels that are tokens: a "
            "head would confuse them; train on them in two runs"
        )
