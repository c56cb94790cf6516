"""Choices as rows, against a loop over examples; and batches of a stream with their weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.pipeline.rows import Ragged
from clozeline.tools.runs.evaluation.task_run import set_rows
from clozeline.train.data.global_batch import count_real_tokens
from clozeline.train.data.stream.collate import Collate
from clozeline.train.data.stream.head_features import rows_of_choices
from clozeline.train.data.stream.stream import Stream
from tests.pipeline.task_files import make_choice_sets, make_sets, open_split
from tests.shard_sets import roles_of


def test_rows_are_those_of_a_loop() -> None:
    """Random examples of 2 to 5 choices of 1 to 6 tokens in one or two segments, one in eight filler."""
    draws = np.random.default_rng(5)
    examples, rows = [], []
    for number in range(200):
        parts = [] if number % 8 == 3 else [draws.integers(9, 99, draws.integers(1, 7)) for _ in range(2 + number % 4)]
        starts = np.cumsum([0, *map(len, parts)])[:-1].tolist()
        segments = [[0, 1] if len(part) > 1 else [0] for part in parts]
        rows += [(part.tolist(), own) for part, own in zip(parts, segments, strict=True)] or [([], [])]
        flat = [start + at for start, own in zip(starts, segments, strict=False) for at in own]
        ids = [token for part in parts for token in part]
        right = [number % 2] if parts else []
        given = {"input_ids": ids, "choice_starts": starts[: len(parts)], "segment_starts": flat, "choice": right}
        examples.append(given)
    columns = {name: Ragged.from_lists([one[name] for one in examples], np.int64) for name in examples[0]}
    found, chosen = rows_of_choices(columns, roles_of(columns))
    assert [row.tolist() for row in found["input_ids"]] == [ids for ids, _ in rows]
    assert [row.tolist() for row in found["segment_starts"]] == [segments for _, segments in rows]
    assert chosen["choices"].tolist() == [max(1, len(one["choice_starts"])) for one in examples]
    assert chosen["label"].tolist() == [one["choice"][0] if one["choice"] else -100 for one in examples]


def test_a_batch_of_filler_alone() -> None:
    empty = Ragged(np.zeros(0, np.int64), np.zeros(3, np.int64))
    found, chosen = rows_of_choices({"input_ids": empty}, {})
    assert [len(row) for row in found["input_ids"]] == [0, 0]
    assert (chosen["choices"].tolist(), chosen["label"].tolist()) == ([1, 1], [-100, -100])


@pytest.mark.parametrize("frame", ["bert", "roberta"])
def test_batches_of_a_stream(tmp_path: Path, frame: str) -> None:
    """60 examples in batches of 16: the last has filler, which no weight and no token counts."""
    shards = open_split(make_choice_sets(tmp_path, f"tasks.frame={frame}"), "train")
    held = {tuple(row["input_ids"].tolist()): row for row in set_rows(shards)}
    collate = Collate.from_manifest(shards.manifest)
    assert "choice_starts" in collate.columns
    seen = 0
    with Stream(shards, rank=0, world_size=1, lanes=8, seed=3, global_batch=16, micro_batch=8, io_threads=0) as stream:
        for _ in range(4):
            for batch in stream.next_step():
                tensors = batch.tensors
                assert len(tensors["row_weight"]) == len(tensors["choices"]) == len(tensors["label"]) == 8
                assert tensors["input_ids"].shape[0] == int(tensors["choices"].sum()) == len(tensors["lengths"])
                first, tokens = 0, 0
                for number, count in enumerate(tensors["choices"].tolist()):
                    parts = [
                        tensors["input_ids"][row, : tensors["lengths"][row]] for row in range(first, first + count)
                    ]
                    first += count
                    if not tensors["row_weight"][number]:
                        continue
                    row = held[tuple(torch.cat(parts).tolist())]
                    assert int(row["choice"][0]) == int(tensors["label"][number])
                    tokens, seen = tokens + len(row["input_ids"]), seen + 1
                assert count_real_tokens([batch]) == tokens
                assert ("type_ids" in tensors) == (frame == "bert")
    assert seen == 60


def test_other_rows_beside_choices_are_refused(tmp_path: Path) -> None:
    sets = [open_split(make_choice_sets(tmp_path / "a"), "train"), open_split(make_sets(tmp_path / "b"), "train")]
    with pytest.raises(ConfigurationError, match="encoder with choices and encoder"):
        Collate.from_manifests([shards.manifest for shards in sets])
