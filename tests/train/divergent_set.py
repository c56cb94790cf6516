"""A masked-LM set in which the loss of a few consecutive steps is not finite."""

import numpy as np

from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.train.data.stream.order import BlockOrder
from tests.shard_sets import list_column, objective, write_set
from tests.train.masked_set import COLUMNS, TOKENIZER, masked_rows

NAME = "toy/train"
BLOCK = 16
LANES = 4
WEIGHTS = (
    list_column("label_weight", "float32"),
    list_column("label_count"),
)
ROUND = BLOCK * LANES
"""Rows that a block of each lane gives: 8 steps of 8 rows."""


def write_divergent_set(folder, weights):
    """A set whose labels weigh 1, and in one block of the first epoch's round N `weights[N]`.

    Returns its manifest.
    """
    rows = 4 * ROUND
    content = masked_rows(1, rows)
    order = BlockOrder(NAME, rows, BLOCK, 0, LANES)
    of_labels = np.ones(rows, np.float32)
    for number, weight in weights.items():
        first = order.block(0, number * LANES) * BLOCK
        of_labels[first : first + BLOCK] = weight

    counts = np.array([len(content.columns["label_ids"][row]) for row in range(rows)], np.uint16)
    values = {"label_weight": of_labels, "label_count": counts}
    single = {
        name: Ragged.from_lists(of_rows[:, None], of_rows.dtype) for name, of_rows in values.items()
    }
    content = RowBatch(content.fixed, {**content.columns, **single})
    facts = {**objective("encoder"), "heads": ["masked_lm"]}
    options = {"objective": facts, "tokenizer": TOKENIZER, "block_rows": BLOCK, "name": NAME}
    write_set(folder / "train", [content], columns=(*COLUMNS, *WEIGHTS), **options)
    return folder / "train" / "manifest.json"
