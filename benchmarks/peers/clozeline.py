"""Measure our stream with its defaults.

It checks the hash of every block, has an exact order, and builds batches ahead in a thread.
"""

from collections.abc import Iterator
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.peers.workload import BATCH, LENGTH, Loader, sample_indices
from clozeline.pipeline.block_options import Codec

SHARDS = 8
BLOCK_ROWS = 1920
LANES = gcd(64, BATCH)
"""The trainer's default."""
ROUND = BLOCK_ROWS * LANES // BATCH
"""Batches after which all lanes read their next blocks."""


class Ours(Loader):
    """A stream of one rank over an example set."""

    module = "clozeline.train.data.stream.stream"
    has_workers = False
    codec: Codec = "none"

    def __init__(self, folder: Path, state: Any, workers: int = 0) -> None:
        self.stream = _open_stream(folder / self.codec, state)

    def __del__(self) -> None:
        if hasattr(self, "stream"):
            self.stream.close()

    @classmethod
    def write(cls, folder: Path, ids: NDArray[np.uint16], lengths: NDArray[np.int64]) -> None:
        write_set(folder, folder / cls.codec, ids, lengths, cls.codec)

    def __iter__(self) -> Iterator[torch.Tensor]:
        stream = self.stream
        end = (stream.samples // stream.samples_per_epoch + 1) * stream.samples_per_epoch
        while stream.samples < end:
            yield stream.next_step()[0].tensors["input_ids"]

    def state(self) -> Any:
        return self.stream.state_dict()


class OursZstd(Ours):
    """The same from compressed shards."""

    codec = "zstd"


def read_elastically(folder: Path, expected: list[NDArray[np.int64]]) -> dict[str, float]:
    """Read an epoch with 8 ranks, then 4, 2 and 1.

    Each resumes from the state of the ranks before.
    """
    seen = np.zeros(sum(len(batch) for batch in expected), np.int64)
    state = None
    other = 0
    done = 0

    for turn, world_size in enumerate((8, 4, 2, 1)):
        ranks = [_open_stream(folder, state, rank, world_size) for rank in range(world_size)]
        end = len(expected) * (turn + 1) // 4
        for batch in expected[done:end]:
            got = np.concatenate(
                [sample_indices(rank.next_step()[0].tensors["input_ids"]) for rank in ranks]
            )
            other += not np.array_equal(got, batch)
            np.add.at(seen, got, 1)
        state = ranks[-1].state_dict()
        done = end
        for rank in ranks:
            rank.close()

    return {
        "elastic_repeated": float((seen > 1).sum()),
        "elastic_missing": float((seen == 0).sum()),
        "elastic_other": float(other),
    }


def _open_stream(folder: Path, state: Any, rank: int = 0, world_size: int = 1) -> Any:
    from clozeline.pipeline.shards import open_shards
    from clozeline.train.data.stream.stream import Stream

    sizes: Any = {"seed": 1, "global_batch": BATCH, "micro_batch": BATCH // world_size}
    stream = Stream(open_shards(folder), rank=rank, world_size=world_size, **sizes)
    if state is not None:
        stream.load_state_dict(state)
    return stream


def origins(rows: int, seed: int) -> dict[str, Any]:
    """Return realistic fixed columns: every row from another document, so they hardly compress."""
    from clozeline.pipeline.rows import FIXED_COLUMNS

    random = np.random.RandomState(seed)
    fixed: dict[str, Any] = {
        name: np.zeros(rows, dtype) for name, dtype in FIXED_COLUMNS.items() if dtype != "binary16"
    }
    fixed["document_uid"] = random.randint(0, 256, (rows, 16)).astype(np.uint8)
    fixed["document_offset"] = random.randint(0, 1000, rows).astype(np.uint32)
    fixed["uid"] = random.randint(0, 1 << 62, rows).astype(np.uint64)
    return {name: fixed[name] for name in FIXED_COLUMNS}


def write_set(
    root: Path, folder: Path, ids: NDArray[np.uint16], lengths: NDArray[np.int64], codec: Codec
) -> None:
    """Write an example set for an encoder."""
    from clozeline.pipeline.rows import Ragged, RowBatch
    from clozeline.pipeline.shards import write_shard

    folder.mkdir()
    shards = []

    for number, part in enumerate(np.array_split(np.arange(len(ids)), SHARDS)):
        values = ids[part][np.arange(LENGTH) < lengths[part, None]]
        text = Ragged(values, np.concatenate(([0], np.cumsum(lengths[part]))))
        rows = RowBatch(origins(len(part), number), {"input_ids": text})
        path = folder / f"shard-{number:05d}.arrow"
        shards.append(write_shard(path, rows, _columns(), block_rows=BLOCK_ROWS, codec=codec))

    finish_set(root, folder, shards, codec)


def finish_set(root: Path, folder: Path, shards: list[Any], codec: Codec = "none") -> None:
    """Write index and manifest for shards of an encoder; the shard files need not exist."""
    from clozeline.pipeline.execution.unit_record import Output
    from clozeline.pipeline.shards import write_manifest

    write_manifest(
        folder,
        name="benchmark",
        kind="examples",
        seed=1,
        tokenizer={
            "name": "none",
            "fingerprint": "",
            "vocab_size": 65536,
            "special_ids": {"pad": 0},
        },
        columns=_columns(),
        block_rows=BLOCK_ROWS,
        container="arrow",
        codec=codec,
        shards=shards,
        output=Output(root),
        objective={
            "name": "none",
            "label": "none",
            "architecture": "encoder",
            "heads": [],
            "frame": {},
        },
    )


def _columns() -> list[Any]:
    from clozeline.columns import IDS, Feature
    from clozeline.pipeline.shards import base_columns, feature_columns

    return [
        *base_columns(),
        *feature_columns([Feature("input_ids", "ids", IDS, "token ids")], 65536),
    ]
