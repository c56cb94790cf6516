"""Packed rows whose documents are kept apart: from the stage's shards to the model, nothing of one reaches another."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from clozeline.model.build import Model, build_model
from clozeline.model.configuration.position import PositionConfig
from clozeline.pipeline.rows import Row
from clozeline.pipeline.shards import ShardSet, open_shards
from clozeline.train.data.stream.batches import Batch
from clozeline.train.data.stream.stream import Stream
from tests.model.small_models import small_config
from tests.pipeline.token_sets import WORDS, recipe, run_stage, write_token_set

ENTRIES: dict[str, dict[str, Any]] = {
    "decoder": {"name": "causal_lm", "max_length": 24, "cross_documents": False},
    "encoder": {"name": "masked_lm", "max_length": 24, "cross_documents": False},
}
KINDS = [("decoder", "rope"), ("decoder", "learned"), ("encoder", "learned"), ("encoder", "t5")]


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of several short documents, some of which go on in the next row."""
    out = tmp_path_factory.mktemp("packed")
    write_token_set(out, [1 + (7 * document) % 19 for document in range(91)])
    made = recipe(out, list(ENTRIES.values()))
    run_stage(made, "group")
    run_stage(made, "corrupt")
    return out


def packed(chain: Path, family: str) -> ShardSet:
    return open_shards(chain / "corrupt" / ENTRIES[family]["name"] / "train")


def batches(shards: ShardSet) -> Iterator[tuple[list[Row], Batch]]:
    """Micro-batches of 4 rows over an epoch, filler at its end included, with the rows as they were stored."""
    lanes = next(lanes for lanes in (8, 12, 20) if len(shards) % lanes)
    options: Any = {"lanes": lanes, "seed": 2, "global_batch": lanes, "micro_batch": 4, "io_threads": 0}
    with Stream(shards, rank=0, world_size=1, **options) as stream:
        for _ in range(stream.order.lane_rows):
            for batch in stream.next_step():
                yield [shards.read_block(b).row(r) for _, b, r in batch.origin.tolist() if b >= 0], batch


def network_of(family: str, kind: str) -> Model:
    torch.manual_seed(0)
    position = PositionConfig(kind=kind, maximum=24, buckets=8, max_distance=9)  # type: ignore[arg-type]
    model = build_model(small_config(family, position=position, type_vocab_size=0), WORDS.size, WORDS.specials)
    return model.eval()


def logits_of(model: Model, tensors: dict[str, Tensor]) -> Tensor:
    (head,) = model.heads.values()
    with torch.no_grad():
        return head.logits(model.family(tensors))


@pytest.mark.parametrize("family", ENTRIES)
def test_bounds_positions_and_labels_equal_a_slow_loop(chain: Path, family: str) -> None:
    seen = filler = 0
    for rows, batch in batches(packed(chain, family)):
        found = {name: tensor.tolist() for name, tensor in batch.tensors.items()}
        width = len(found["input_ids"][0])
        bounds, labels = [], []
        for b in range(4):
            row = rows[b] if b < len(rows) else None
            length = 0 if row is None else len(row["input_ids"])
            starts = [] if row is None else row["document_starts"].tolist()
            bounds += [b * width + place for place in sorted({0, *starts, length} - {width})]
            for number, (first, end) in enumerate(pairwise([*starts, length])):
                assert found["document_ids"][b][first:end] == [number] * (end - first)
                assert found["position_ids"][b][first:end] == list(range(end - first))
                if family == "decoder":  # each token but a document's first is predicted, by the one before it
                    labels += [(b * width + i - 1, int(row["input_ids"][i])) for i in range(first + 1, end)]  # type: ignore[index]
            if family == "encoder" and row is not None:
                places = row["label_positions"].tolist()
                labels += [(b * width + i, j) for i, j in zip(places, row["label_ids"].tolist(), strict=True)]
            seen, filler = seen + len(starts), filler + (row is None)
        assert list(zip(found["label_index"], found["label_ids"], strict=True)) == labels
        bounds.append(4 * width)
        assert found["cu_seqlens"] == bounds
        assert found["max_seqlen"] == max(b - a for a, b in pairwise(bounds))
    assert seen > 100
    assert filler


@pytest.mark.parametrize(("family", "kind"), KINDS)
def test_another_document_changes_nothing(chain: Path, family: str, kind: str) -> None:
    """Other tokens in one document leave the logits of all others as they are, to the last bit."""
    model, compared = network_of(family, kind), 0
    for _, batch in batches(packed(chain, family)):
        tensors, documents = batch.tensors, batch.tensors["document_ids"]
        real = torch.arange(documents.shape[1]) < tensors["lengths"][:, None]
        before = logits_of(model, tensors)
        for number in range(int(documents.max()) + 1):
            own = (documents == number) & real
            other = torch.where(own, tensors["input_ids"] % 7 + 20, tensors["input_ids"])
            after = logits_of(model, tensors | {"input_ids": other})
            assert torch.equal(after[real & ~own], before[real & ~own])
            assert not torch.equal(after[own], before[own])
            compared += int((real & ~own).sum())
    assert compared > 1000


@pytest.mark.parametrize(("family", "kind"), KINDS)
def test_a_document_in_a_row_is_as_it_is_alone(chain: Path, family: str, kind: str) -> None:
    model, compared = network_of(family, kind), 0
    for rows, batch in batches(packed(chain, family)):
        together = logits_of(model, batch.tensors)
        for b, row in enumerate(rows):
            starts = row["document_starts"].tolist()
            for first, end in pairwise([*starts, len(row["input_ids"])]):
                alone = {
                    "input_ids": batch.tensors["input_ids"][b : b + 1, first:end],
                    "position_ids": torch.arange(end - first)[None],
                    "lengths": torch.tensor([end - first]),
                }
                torch.testing.assert_close(logits_of(model, alone)[0], together[b, first:end], rtol=1e-4, atol=1e-5)
                compared += 1
    assert compared > 100
