"""Columns of small rows, and the batches that are made of them."""

import numpy as np
import torch

from clozeline.pipeline.row_form import RowForm
from clozeline.pipeline.rows import Ragged
from clozeline.train.data.stream.collate import Collate
from tests.shard_sets import TOKENIZER, objective, roles_of

PAD = 0


MASK = 3


START = 4


SPECIAL = TOKENIZER["special_ids"]


def column(lists):
    return Ragged.from_lists(lists, np.uint16)


def collated(architecture, lists, weight=None, **options):
    rows = len(lists["input_ids"])
    columns = {name: column(values) for name, values in lists.items()}
    row_weight = np.ones(rows, np.float32) if weight is None else np.array(weight, np.float32)
    collate = Collate(architecture, roles_of(columns), SPECIAL, RowForm(**options))
    tensors = collate({name: columns[name] for name in collate.columns}, row_weight)
    for name, tensor in tensors.items():
        assert tensor.dtype == {"row_weight": torch.float32, "cu_seqlens": torch.int32}.get(
            name, torch.int64
        )

    return {name: tensor.tolist() for name, tensor in tensors.items()}


def facts(name, predict_from="same"):
    found = objective("encoder")
    return {
        **found,
        "name": name,
        "label": name,
        "frame": {**found["frame"], "predict_from": predict_from},
    }
