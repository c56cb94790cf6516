"""Check a column set with scores of a teacher: against its rows, and against the teacher itself."""

from pathlib import Path
from typing import Final

import numpy as np
import torch

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.shards import ShardSet
from clozeline.pipeline.shards.column_set import JoinedShards
from clozeline.tools.runs.inference.teacher_scores import TeacherScores
from clozeline.tools.shards.validation.shard_set import ComparedScores
from clozeline.train.data.sets.stored_scores import COLUMNS, StoredScores, read_stored_scores
from clozeline.train.startup.teacher_model import open_teacher

_SAMPLE_BLOCKS: Final = 3
"""number of blocks that the teacher scores again"""
_WEIGHT_TOLERANCE: Final = 1e-3
"""largest difference of a weight: fp16 and another machine round differently"""
_MAX_DIFFERENT_SHARE: Final = 0.01
"""share of entries that may differ in a block: near ties come in another order on another
machine"""


def compare_stored_scores(
    columns: ShardSet, against: ShardSet, teacher: Path | None
) -> ComparedScores:
    """Compare stored scores with the labels of their rows, and a sample of blocks with the teacher.

    Return how many.

    Raises:
        ConfigurationError: these are not the rows of the column set, or another teacher.
        IntegrityError: a row has scores for another number of labels, or a block has other scores.
    """
    joined = JoinedShards(against, [columns])
    stored = read_stored_scores(columns)
    if stored is None:
        raise ConfigurationError(
            f"{columns.path}: expected scores of a teacher, as `clozeline teach` writes"
        )

    blocks = len(joined.index)
    for block in range(blocks):
        _check_counts(joined, block, stored)
    if teacher is None:
        return ComparedScores(blocks)
    # compute the first block, one in the middle, and the last again
    opened = open_teacher(teacher, None, against, "teacher")
    if opened.weights_digest != stored.digest:
        raise ConfigurationError(
            f"teacher={teacher}: has weights of digest {opened.weights_digest}, {columns.path} "
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
                f"{teacher} computes, {share:.0%} of the entries differ: run `clozeline teach` "
                "again"
            )

    return ComparedScores(blocks, len(sample))


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
