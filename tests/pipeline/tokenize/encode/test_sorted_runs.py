from __future__ import annotations

import io
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.errors import IntegrityError
from clozeline.pipeline.execution.exchange import Exchange
from clozeline.pipeline.execution.pieces import PieceWriter
from clozeline.pipeline.tokenize.encode import sorted_runs as runs
from tests.pipeline.tokenize.encode import encode_passes as passes


def test_a_damaged_run_is_an_integrity_error(source, tokenizer, tmp_path):
    passes.encode(source, tmp_path, tokenizer, parts=passes.PARTS, shards=passes.SHARDS)
    path = tmp_path / "tmp/runs/000000.pieces"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(IntegrityError, match=r"000000\.pieces: its end is not what"):
        runs.read_range(tmp_path, Exchange("runs", passes.PARTS, passes.SHARDS), 0, np.uint16)


@settings(max_examples=30)
@given(st.data(), st.integers(1, 5), st.sampled_from([1, 600, 1 << 26]))
def test_each_shard_gets_its_documents_in_order_from_every_flush(data, shards, flush_bytes):
    orders = data.draw(st.lists(st.integers(0, 2**64 - 1), max_size=12))
    documents = [
        document.replace(uid=bytes([97 * n % 251]) * 16) for n, document in enumerate(passes.documents(len(orders)))
    ]
    exchange = Exchange("runs", 1, shards)
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(runs, "_FLUSH_BYTES", flush_bytes)
        sink = io.BytesIO()
        writer = runs.RunWriter(PieceWriter(sink, exchange.file(0)), np.uint16, shards)
        for place, (document, order) in enumerate(zip(documents, orders, strict=True)):
            target = np.arange(place % 2, dtype=np.uint16)
            writer.add(document, order, np.arange(place, dtype=np.uint16), np.array([0, place], np.uint32), target)
        writer.close()
        path = Path(folder) / exchange.file(0)
        path.parent.mkdir(parents=True)
        path.write_bytes(sink.getvalue())
        found = [
            row
            for shard in range(shards)
            for batch in runs.read_range(Path(folder), exchange, shard, np.uint16)
            for row in batch.to_pylist()
            if row["order"] * shards // 2**64 == shard
        ]
        flushes = [runs.read_range(Path(folder), exchange, shard, np.uint16) for shard in range(shards)]
    for batches in flushes:
        assert all(keys == sorted(keys) for batch in batches for keys in [_keys(batch)])
    assert sorted((row["uid"], row["order"], row["token_ids"], row["target_language"]) for row in found) == sorted(
        (document.uid, order, list(range(place)), "und" if place % 2 else None)
        for place, (document, order) in enumerate(zip(documents, orders, strict=True))
    )


def test_a_shard_of_one_document_costs_its_tokens_and_some_hundred_bytes():
    """With a record batch for each, 500 documents in as many shards took 1.1 kB each on top of their tokens."""
    found = passes.documents(500)
    sizes = {}
    for shards in (1, 100_000):
        sink = io.BytesIO()
        writer = runs.RunWriter(PieceWriter(sink, "runs"), np.uint16, shards)
        for number, document in enumerate(found):
            ids = np.arange(300, dtype=np.uint16)
            writer.add(document, number * 2**64 // 500, ids, np.array([0], np.uint32), ids[:0])
        writer.close()
        sizes[shards] = len(sink.getvalue()) - 24 * shards  # without the index of pieces
    assert sizes[100_000] - sizes[1] == 84 * (500 - 1)
    assert sizes[1] < 500 * (2 * 300 + 200)  # uid, source, language, URL and lengths


def test_runs_of_an_earlier_version_are_read(tmp_path):
    """An interrupted run goes on: its pieces are Arrow record batches, one per flush."""
    schema = runs.run_schema(np.uint16)
    row = {"order": 5, "uid": b"u" * 16, "token_ids": [1, 2], "sentence_starts": [0], "target_ids": [],
           "target_language": None, "language": "en", "source_group": "a", "source": "a/b", "offset": 1, "length": 2,
           "url": None}  # fmt: skip
    batch = pa.RecordBatch.from_pylist([row], schema)
    sink = io.BytesIO()
    exchange = Exchange("runs", 1, 1)
    writer = runs.RunWriter(PieceWriter(sink, exchange.file(0)), np.uint16, 1)
    writer._writer.add([batch.serialize(), batch.serialize()])  # as in a bundle
    document = passes.documents(1)[0]
    writer.add(document, 7, np.arange(3, dtype=np.uint16), np.array([0], np.uint32), np.arange(0, dtype=np.uint16))
    writer.close()
    path = tmp_path / exchange.file(0)
    path.parent.mkdir(parents=True)
    path.write_bytes(sink.getvalue())
    batches = runs.read_range(tmp_path, exchange, 0, np.uint16)
    assert [each.to_pylist()[0]["order"] for each in batches] == [5, 5, 7]
    assert batches[0].to_pylist() == [row]


def _keys(batch):
    return list(zip(batch["order"].to_pylist(), batch["uid"].to_pylist(), strict=True))
