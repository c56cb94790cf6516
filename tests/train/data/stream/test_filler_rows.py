"""Filler rows leave a batch's loss, its gradients and its counts as they are without them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from clozeline.model.build import build_model
from clozeline.pipeline.rows import Ragged, Rows
from clozeline.pipeline.shards import ShardSet
from clozeline.train.data.stream.batches import Batch
from tests.model.closeness import FLOAT32, assert_gradients_close
from tests.model.small_models import FAMILIES, VOCABULARY, small_config
from tests.shard_sets import fixed, list_column, objective, write_set
from tests.train.data.stream.streams import open_stream

ROWS, LANES = 13, 8
TOKENIZER = {"name": "t", "fingerprint": "f", "vocab_size": VOCABULARY, "special_ids": {"pad": 0, "mask": 3},
             "sentinels": []}  # fmt: skip
ADDED = {"encoder": ("label_positions", "label_ids"), "decoder": (), "encoder_decoder": ("target_ids",)}


def example_set(folder: Path, family: str) -> ShardSet:
    """Rows of 3 to 9 tokens; an encoder's have two labels, an encoder-decoder's a target."""
    draw = torch.Generator().manual_seed(1)

    def ids(size: int) -> list[int]:
        return torch.randint(4, VOCABULARY, (size,), generator=draw).tolist()

    lists = {
        "input_ids": [ids(3 + n % 7) for n in range(ROWS)],
        "label_positions": [[0, 2] for _ in range(ROWS)],
        "label_ids": [ids(2) for _ in range(ROWS)],
        "target_ids": [ids(2 + n % 3) for n in range(ROWS)],
    }
    names = ("input_ids", *ADDED[family])
    columns = [list_column(name) for name in names]
    content = Rows(fixed(np.arange(1, ROWS + 1)), {name: Ragged.from_lists(lists[name], np.uint16) for name in names})
    return write_set(folder, [content], columns=columns, tokenizer=TOKENIZER, objective=objective(family))


def batches(shards: ShardSet, lanes: int) -> list[Batch]:
    """One pass: on one lane there is no filler, on eight lanes the last batch has three rows of it."""
    with open_stream(shards, lanes=lanes, global_batch=lanes, micro_batch=lanes) as stream:
        return [batch for step in stream.one_pass() for batch in step]


def network_for(family: str) -> nn.Module:
    torch.manual_seed(0)
    return build_model(small_config(family), VOCABULARY, TOKENIZER["special_ids"])


def learnt(family: str, tensors: list[dict[str, torch.Tensor]]) -> tuple[float, int, dict[str, torch.Tensor]]:
    """Sum of the loss, labels, and gradients over several micro-batches."""
    network = network_for(family)
    total, count = 0.0, 0
    for part in tensors:
        (loss,) = network(part).values()
        loss.total.backward()
        total, count = total + loss.total.item(), count + loss.count
    return total, count, {name: value.grad for name, value in network.named_parameters()}  # type: ignore[misc]


@pytest.mark.parametrize("family", FAMILIES)
def test_filler_rows_change_nothing(tmp_path: Path, family: str) -> None:
    shards = example_set(tmp_path, family)
    alone, filled = batches(shards, 1), batches(shards, LANES)
    weights = torch.cat([batch.row_weight for batch in filled])
    assert all(batch.row_weight.all() for batch in alone)
    assert (int(weights.sum()), len(weights)) == (ROWS, 16)
    expected = learnt(family, [batch.tensors for batch in alone])
    found = learnt(family, [batch.tensors for batch in filled])
    assert found[0] == pytest.approx(expected[0], rel=1e-5)
    assert found[1] == expected[1] > ROWS
    assert_gradients_close(found[2], expected[2], FLOAT32)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_micro_batch_of_filler_alone_is_nothing(tmp_path: Path, family: str) -> None:
    """A whole step of a rank may be filler: its sum and count are 0, its gradients 0 and finite."""
    shards = example_set(tmp_path, family)
    with open_stream(shards, lanes=LANES, global_batch=32, micro_batch=1) as stream:
        (step,) = stream.one_pass()
    empty = [batch for batch in step if not batch.row_weight.any()]
    assert len(empty) == 32 - ROWS
    total, count, gradients = learnt(family, [empty[0].tensors, empty[-1].tensors])
    assert (total, count) == (0.0, 0)
    assert not any(gradient.any() for gradient in gradients.values())
    assert all(gradient.isfinite().all() for gradient in gradients.values())
