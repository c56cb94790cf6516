import io
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.pipeline.execution.shuffle import PieceWriter, Shuffle
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.shards.layout import is_heldout
from clozeline.pipeline.tokenize.encode import sorted_runs as runs
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.seeding import order_key
from tests.pipeline.tokenize.encode import encode_passes as passes


def test_documents_table_says_where_each_row_came_from(encoded):
    by_uid = {document.uid: document for document in passes.documents(passes.COUNT)}
    found, uids = passes.token_rows(encoded), []
    for shard in range(passes.SHARDS):
        path = encoded / f"documents-{shard:05d}-of-{passes.SHARDS:05d}.arrow"
        for row in pa.ipc.open_file(path).read_all().to_pylist():
            for name in ("source", "offset", "length", "url", "language"):
                assert row[name] == getattr(by_uid[row["uid"]], name)
            assert row["tokens"] == len(found[row["uid"]][1])
            uids.append(row["uid"])
    assert uids == list(found) == sorted(uids, key=lambda uid: (order_key(uid, "order", passes.SEED), uid))


TWICE = [*passes.documents(6), passes.documents(6)[2]]
LANGUAGES = [document.replace(language=f"x{number:03d}") for number, document in enumerate(passes.documents(256))]


@pytest.mark.parametrize(
    ("found", "error", "said"),
    [(TWICE, IntegrityError, TWICE[2].uid.hex()), ([], ConfigurationError, "no documents to encode"),
     (LANGUAGES, ConfigurationError, "256 languages")],
    ids=["one uid twice", "none", "languages"],
)  # fmt: skip
def test_documents_that_make_no_set(tokenizer, tmp_path, found, error, said):
    source = passes.write_parts(tmp_path / "clean", found, 2)
    with pytest.raises(error, match=said):
        passes.encode(source, tmp_path / "encode", tokenizer, parts=2, shards=1)


def test_codes_are_places_in_the_sorted_names_and_other_sides_are_counted(tokenizer, tmp_path):
    found = [
        document.replace(target_text=passes.text(500 + number, 2), target_language="fr" if number % 3 else None)
        for number, document in enumerate(passes.documents(12))
    ]
    found[5] = found[5].replace(target_text=None)
    source = passes.write_parts(tmp_path / "clean", found, 2)
    passes.encode(source, tmp_path / "encode", tokenizer, parts=2, shards=1)
    tokens = open_shards(tmp_path / "encode")
    assert tokens.manifest.languages == ("de", "en", "fr", "und", "zh")
    assert tokens.manifest.source_groups == ("books", "crawl")
    model, by_uid, counted = load_tokenizer(tokenizer), {document.uid: document for document in found}, Counter()
    for row in tokens.read_block(0):
        uid = row.fixed["document_uid"].tobytes()
        document = by_uid[uid]
        assert model.decode(row["target_ids"]) == (document.target_text or "")
        names = [tokens.manifest.languages[code] for code in row["target_language"]]
        assert names == ([] if document.target_text is None else [document.target_language or "und"])
        if not is_heldout(uid, passes.HELDOUT, passes.SEED):
            counted.update([*row["token_ids"].tolist(), *row["target_ids"].tolist()])
    table = pa.ipc.open_file(tmp_path / "encode" / "token_counts.arrow").read_all().to_pydict()
    assert Counter(dict(zip(table["id"], table["count"], strict=True))) == counted


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
