"""Column sets with scores of a teacher: checked against rows and teacher, and shown."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import torch

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.extensions.compression.distillation.stored_scores import (
    COLUMNS,
    TEACHER_KEY,
    StoredScores,
    read_stored_scores,
)
from clozeline.extensions.compression.distillation.teacher_model import open_teacher
from clozeline.extensions.compression.distillation.teacher_scores import TeacherScores
from clozeline.pipeline.corrupt.preview.row_view import TokenRenderer
from clozeline.pipeline.rows import RowBatch, ShardRow
from clozeline.pipeline.shards import ShardSet
from clozeline.pipeline.shards.column_set import JoinedShards
from clozeline.report.views import Table
from clozeline.tools.shards.column_kinds import ColumnKind
from clozeline.tools.shards.validation.shard_set import ComparedColumns

_SHOWN: Final = 5
"""classes that are shown of a label"""
_SAMPLE_BLOCKS: Final = 3
"""number of blocks that the teacher scores again"""
_WEIGHT_TOLERANCE: Final = 1e-3
"""largest difference of a weight: fp16 and another machine round differently"""
_MAX_DIFFERENT_SHARE: Final = 0.01
"""share of entries that may differ in a block: near ties come in another order on another
machine"""


class StoredScoresKind(ColumnKind):
    """Classes and their weights for each label, which a teacher computed."""

    config_key = TEACHER_KEY

    @staticmethod
    def compare(columns: ShardSet, against: ShardSet, model: Path | None) -> ComparedColumns:
        """Compare the scores with the labels of the rows, and some blocks with the teacher."""
        joined = JoinedShards(against, [columns])
        stored = read_stored_scores(columns)
        assert stored is not None, "the manifest has the key of the kind"
        blocks = len(joined.index)
        for block in range(blocks):
            _check_counts(joined, block, stored)
        if model is None:
            return ComparedColumns(blocks)
        # compute the first block, one in the middle, and the last again
        opened = open_teacher(model, None, against, "teacher")
        if opened.weights_digest != stored.digest:
            raise ConfigurationError(
                f"teacher={model}: has weights of digest {opened.weights_digest}, {columns.path} "
                f"holds the {stored}: name the teacher that it was made with"
            )

        scores = TeacherScores(opened, against, stored, torch.device("cpu"))
        sample = (
            sorted(set(np.linspace(0, blocks - 1, _SAMPLE_BLOCKS).astype(int).tolist()))
            if blocks
            else []
        )
        for block in sample:
            read_rows = columns.read_block(block)
            expected = scores.score(against.read_block(block))
            if (share := _different(read_rows, expected)) > _MAX_DIFFERENT_SHARE:
                where = columns.shard_path(int(columns.index.shard[block]))
                raise IntegrityError(
                    f"{where}: block {int(columns.index.block[block])}: expected the scores that "
                    f"{model} computes, {share:.0%} of the entries differ: run `clozeline teach` "
                    "again"
                )

        return ComparedColumns(blocks, len(sample))

    @staticmethod
    def sheets(
        pieces: TokenRenderer, row: ShardRow, rows: ShardSet, columns: ShardSet
    ) -> Sequence[Table]:
        """Return a table with the best classes of the teacher for each label.

        Labels that are not stored as `label_ids` are counted from 1; classes of tasks are numbers.
        """
        stored = read_stored_scores(columns)
        assert stored is not None, "the manifest has the key of the kind"
        # ids and weights [labels, k]
        labels = row.columns.get("label_ids")
        are_classes = any(role.below == "classes" for role in rows.manifest.roles.values())
        ids, weights = (row[name].reshape(-1, stored.k) for name in COLUMNS)
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
                f"{name} {float(shares[entry]):.3f}"
                for name, entry in zip(named, best, strict=True)
            )
            label = str(number + 1) if labels is None else pieces.piece(int(labels[number]))
            lines.append((label, scored))

        return [Table("best scores of the teacher", ("label", "class and weight"), tuple(lines))]


def _check_counts(joined: JoinedShards, block: int, stored: StoredScores) -> None:
    """Require k entries for each label of each row."""
    rows = joined.read_block(block).columns
    sizes = [rows[name].lengths for name in COLUMNS]
    labels = rows["label_positions"].lengths * stored.k if "label_positions" in rows else sizes[0]
    wrong = (sizes[0] != labels) | (sizes[1] != labels) | (sizes[0] % stored.k != 0)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise IntegrityError(
            f"{joined.path}: block {block} over all shards, row {row}: expected {int(labels[row])} "
            f"scores, k = {stored.k} for each label, got {int(sizes[0][row])} ids and "
            f"{int(sizes[1][row])} weights"
        )


def _different(read_rows: RowBatch, expected: RowBatch) -> float:
    """Return the share of entries with another class or weight; 1 if their counts differ."""
    ids, weights = (
        (read_rows.columns[name].values, expected.columns[name].values) for name in COLUMNS
    )
    if len(ids[0]) != len(ids[1]):
        return 1.0
    apart = (
        np.abs(weights[0].astype(np.float64) - weights[1].astype(np.float64)) > _WEIGHT_TOLERANCE
    )
    return float((apart | (ids[0] != ids[1])).mean()) if len(apart) else 0.0
