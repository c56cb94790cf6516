from __future__ import annotations

import io
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.errors import IntegrityError
from clozeline.pipeline.execution.shuffle import PieceWriter, Shuffle
from clozeline.pipeline.tokenize.encode import sorted_runs as runs
from tests.pipeline.tokenize.encode import encode_passes as passes


def test_a_damaged_run_is_an_integrity_error(source, tokenizer, tmp_path):
    passes.encode(source, tmp_path, tokenizer, parts=passes.PARTS, shards=passes.SHARDS)
    path = tmp_path / "tmp/runs/000000.pieces"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(IntegrityError, match=r"000000\.pieces: its end is not what"):
        runs.read_range(tmp_path, Shuffle("runs", passes.PARTS, passes.SHARDS), 0, np.uint16)


@settings(max_examples=30)
@given(st.data(), st.integers(1, 5), st.sampled_from([1, 600, 1 << 26]))
def test_each_shard_gets_its_documents_in_order_from_every_flush(data, shards, flush_bytes):
    orders = data.draw(st.lists(st.integers(0, 2**64 - 1), max_size=12))
    documents = [
        document.replace(uid=bytes([97 * n % 251]) * 16) for n, document in enumerate(passes.documents(len(orders)))
    ]
    shuffle = Shuffle("runs", 1, shards)
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(runs, "_FLUSH_BYTES", flush_bytes)
        sink = io.BytesIO()
        pieces = PieceWriter(sink, shuffle.file(0))
        writer = runs.RunWriter(pieces, np.uint16, shards)
        for place, (document, order) in enumerate(zip(documents, orders, strict=True)):
            target = np.arange(place % 2, dtype=np.uint16)
            writer.add(document, order, np.arange(place, dtype=np.uint16), np.array([0, place], np.uint32), target)
        writer.close()
        pieces.close()
        path = Path(folder) / shuffle.file(0)
        path.parent.mkdir(parents=True)
        path.write_bytes(sink.getvalue())
        found = [
            row
            for shard in range(shards)
            for batch in runs.read_range(Path(folder), shuffle, shard, np.uint16)
            for row in batch.to_pylist()
            if row["order"] * shards // 2**64 == shard
        ]
        flushes = [runs.read_range(Path(folder), shuffle, shard, np.uint16) for shard in range(shards)]
    for batches in flushes:
        assert all(keys == sorted(keys) for batch in batches for keys in [_keys(batch)])
    assert sorted((row["uid"], row["order"], row["token_ids"], row["target_language"]) for row in found) == sorted(
        (document.uid, order, list(range(place)), "und" if place % 2 else None)
        for place, (document, order) in enumerate(zip(documents, orders, strict=True))
    )


def _keys(batch):
    return list(zip(batch["order"].to_pylist(), batch["uid"].to_pylist(), strict=True))


@pytest.mark.parametrize("side", ["ids", "sentence_starts", "target_ids"])
def test_the_buffer_counts_the_bytes_of_every_side(side, monkeypatch, tmp_path):
    """A document that fills it alone is a flush of its own, whichever of its columns is long."""
    monkeypatch.setattr(runs, "_FLUSH_BYTES", 2000)
    shuffle, sink = Shuffle("runs", 1, 1), io.BytesIO()
    pieces = PieceWriter(sink, shuffle.file(0))
    writer = runs.RunWriter(pieces, np.uint16, 1)
    columns = {"ids": np.uint16, "sentence_starts": np.uint32, "target_ids": np.uint16}
    for order, document in enumerate(passes.documents(4)):
        sizes = {name: 1744 // np.dtype(dtype).itemsize * (name == side) for name, dtype in columns.items()}
        writer.add(document, order, **{name: np.ones(sizes[name], dtype) for name, dtype in columns.items()})
    writer.close()
    pieces.close()
    path = tmp_path / shuffle.file(0)
    path.parent.mkdir(parents=True)
    path.write_bytes(sink.getvalue())
    assert [len(batch) for batch in runs.read_range(tmp_path, shuffle, 0, np.uint16)] == [1, 1, 1, 1]
