"""Corrupting in the stream gives the bytes that corrupting beforehand stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.example import Ragged, Rows
from pipeline.seeding import kernel_keys, words
from pipeline.shards import ColumnSpec
from tests.shard_sets import TOKENIZER, objective, rows, write_set
from train.collate import Collate
from train.stream import Stream

COLUMNS = [
    ColumnSpec("input_ids", "uint16", "list", "corrupted"),
    ColumnSpec("label_positions", "uint16", "list", "places"),
    ColumnSpec("label_ids", "uint16", "list", "originals"),
]


def corrupt(samples: Rows, variants: NDArray[np.uint16]) -> tuple[Rows, NDArray[np.uint8]]:
    """A toy kernel, keyed per row: some tokens become 3, some rows are skipped."""
    text = samples.columns["input_ids"]
    keys = kernel_keys(9, "toy", samples.fixed["uid"], variants)
    draws = words(keys, 0, 12)
    skips = (draws[:, 11] % np.uint64(5) == 0).astype(np.uint8)
    columns: dict[str, list[Any]] = {"input_ids": [], "label_positions": [], "label_ids": []}
    for number in range(len(samples)):
        ids = text[number].copy()
        places = np.flatnonzero(draws[number, : len(ids)] % np.uint64(3) == 0)
        labels = ids[places]
        ids[places] = 3
        for name, values in zip(columns, (ids, places, labels), strict=True):
            columns[name].append([] if skips[number] else values)
    fixed = {**samples.fixed, "variant": variants}
    return Rows(fixed, {name: Ragged.from_lists(lists, np.uint16) for name, lists in columns.items()}), skips


@pytest.mark.parametrize("world", [1, 2, 4])
def test_online_equals_stored(tmp_path: Path, world: int) -> None:
    """Normal rounds, last round, virtual blocks, filler and skips: rows and order are those of stored variants."""
    content = [rows(range(1, 20), [n % 7 + 3 for n in range(19)]), rows(range(20, 42), 6)]
    samples = write_set(tmp_path / "samples", content, kind="samples", objective=None)
    stored = {}
    for epoch in range(3):
        for shard in content:
            made, _ = corrupt(shard, np.full(len(shard), epoch, np.uint16))
            for row in made:
                stored[epoch, int(row.fixed["uid"])] = {name: values.tolist() for name, values in row.columns.items()}
    collate = Collate("encoder", [spec.name for spec in COLUMNS], TOKENIZER["special_ids"])
    options: Any = {
        "lanes": 4,
        "seed": 1,
        "global_batch": 4,
        "micro_batch": 1,
        "transform": corrupt,
        "collate": collate,
    }
    skipped = 0
    for rank in range(world):
        with Stream(samples, rank=rank, world_size=world, io_threads=rank % 2, **options) as stream:
            for position in range(3 * stream.order.lane_rows):
                for batch in stream.next_step():
                    origin = batch.origin[0]
                    if origin[0] < 0:
                        continue
                    uid = int(samples.read_block(int(origin[1])).fixed["uid"][origin[2]])
                    expected = stored[position // stream.order.lane_rows, uid]
                    assert batch.tensors["label_ids"].tolist() == expected["label_ids"]
                    assert batch.tensors["label_index"].tolist() == expected["label_positions"]
                    assert batch.tensors["input_ids"].tolist() == [expected["input_ids"] or [0]]
                    skipped += not expected["input_ids"]
                    assert batch.row_weight.item() == bool(expected["input_ids"])
    assert skipped > 5


def test_a_pass_uses_variant_zero(tmp_path: Path) -> None:
    samples = write_set(tmp_path, [rows(range(1, 30))], kind="samples", objective=None)
    seen = set()

    def watch(batch: Rows, variants: NDArray[np.uint16]) -> tuple[Rows, NDArray[np.uint8]]:
        seen.update(variants.tolist())
        return corrupt(batch, variants)

    collate = Collate("encoder", [spec.name for spec in COLUMNS], TOKENIZER["special_ids"])
    options: Any = {"lanes": 2, "seed": 1, "global_batch": 4, "micro_batch": 4, "transform": watch, "collate": collate}
    with Stream(samples, rank=0, world_size=1, io_threads=0, **options) as stream:
        stream.set_position(5 * stream.samples_per_epoch)
        list(stream.one_pass())
        assert seen == {0}
        stream.next_step()
        assert seen == {0, 5}
    assert objective("encoder")["architecture"] == "encoder"
