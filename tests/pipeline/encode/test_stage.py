from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipeline.encode import runs
from pipeline.encode.stage import EncodeStage
from pipeline.errors import ConfigurationError, IntegrityError
from pipeline.seeding import order_key
from pipeline.sentences.regex import Regex
from pipeline.shards import open_shards
from pipeline.splits import is_heldout
from pipeline.tokenizers import find_tokenizer, load_tokenizer
from tests.pipeline.encode import encode_passes as passes

PARTS, SHARDS, COUNT = 4, 3, 90


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    return passes.write_parts(tmp_path_factory.mktemp("clean"), passes.documents(COUNT), PARTS)


@pytest.fixture(scope="module")
def tokenizer(source, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("out") / "train_tokenizer"
    passes.train(source, folder, PARTS)
    return folder / "tokenizer"


@pytest.fixture(scope="module")
def encoded(source, tokenizer) -> Path:
    folder = tokenizer.parents[1] / "encode"
    passes.encode(source, folder, tokenizer, parts=PARTS, shards=SHARDS)
    return folder


def token_rows(folder: Path) -> dict[bytes, tuple[int, np.ndarray, np.ndarray, str, str]]:
    """uid to shard, ids, sentence starts, language, source group."""
    found = {}
    tokens = open_shards(folder)
    for block in range(len(tokens.index)):
        rows = tokens.read_block(block)
        for row in rows:
            language = tokens.manifest.languages[row.fixed["language"]]
            group = tokens.manifest.source_groups[row.fixed["source_group"]]
            key = row.fixed["document_uid"].tobytes()
            found[key] = (int(tokens.index.shard[block]), row["token_ids"], row["sentence_starts"], language, group)
    return found


def test_every_document_is_there_and_decodes_to_its_text(encoded, tokenizer):
    model = load_tokenizer(tokenizer)
    found = token_rows(encoded)
    wanted = passes.documents(COUNT)
    assert len(found) == COUNT == len(open_shards(encoded))
    for document in wanted:
        shard, ids, _, language, group = found[document.uid]
        assert model.decode(ids) == document.text
        assert (language, group) == (document.language, document.source_group)
        assert shard == order_key(document.uid, "order", passes.SEED) * SHARDS >> 64


def test_rows_stand_in_order_of_key_and_uid(encoded):
    keys = [(order_key(uid, "order", passes.SEED), uid) for uid in token_rows(encoded)]
    assert keys == sorted(keys)


def test_sentence_starts_decode_to_the_sentences(encoded, tokenizer):
    model, splitter = load_tokenizer(tokenizer), Regex(Regex.Options())
    found = token_rows(encoded)
    for document in passes.documents(COUNT):
        _, ids, starts, _, _ = found[document.uid]
        bounds = [*starts.tolist(), len(ids)]
        assert bounds[0] == 0
        assert all(np.diff(bounds) > 0)
        slices = [model.decode(ids[a:b]).strip() for a, b in pairwise(bounds)]
        offsets = [*splitter.starts(document.text, document.language), len(document.text)]
        assert slices == [document.text[a:b].strip() for a, b in pairwise(offsets)]


def test_documents_table_says_where_each_row_came_from(encoded):
    by_uid = {document.uid: document for document in passes.documents(COUNT)}
    found = token_rows(encoded)
    uids = []
    for shard in range(SHARDS):
        path = encoded / f"documents-{shard:05d}-of-{SHARDS:05d}.arrow"
        for row in pa.ipc.open_file(path).read_all().to_pylist():
            document = by_uid[row["uid"]]
            for name in ("source", "offset", "length", "url", "language"):
                assert row[name] == getattr(document, name)
            assert row["tokens"] == len(found[row["uid"]][1])
            uids.append(row["uid"])
    assert uids == list(found)


def test_token_counts_leave_held_out_documents_out(encoded):
    counted: Counter[int] = Counter()
    held = 0
    for uid, (_, ids, *_) in token_rows(encoded).items():
        if is_heldout(uid, passes.HELDOUT, passes.SEED):
            held += 1
        else:
            counted.update(ids.tolist())
    table = pa.ipc.open_file(encoded / "token_counts.arrow").read_all().to_pydict()
    ids = range(open_shards(encoded).manifest.tokenizer.vocab_size)
    assert table["id"] == list(ids)
    assert dict(zip(table["id"], table["count"], strict=True)) == {token: counted[token] for token in ids}
    assert 0 < held < COUNT


def test_bytes_do_not_depend_on_the_order_of_units_or_the_size_of_flushes(
    source, tokenizer, encoded, tmp_path, monkeypatch
):
    reverse = tmp_path / "reverse"
    passes.encode(source, reverse, tokenizer, parts=PARTS, shards=SHARDS, order=lambda units: units[::-1])
    assert passes.tree(reverse) == passes.tree(encoded)
    monkeypatch.setattr(runs, "_FLUSH_BYTES", 2000)
    small = tmp_path / "small"
    passes.encode(source, small, tokenizer, parts=PARTS, shards=SHARDS)
    published = {name: digest for name, digest in passes.tree(encoded).items() if not name.startswith("records/")}
    assert {name: digest for name, digest in passes.tree(small).items() if name in published} == published
    index = np.load(small / "tmp/runs/000000.npy")
    assert len(index) > 3


def test_bytes_do_not_depend_on_the_cut_into_parts(tokenizer, encoded, tmp_path):
    source = passes.write_parts(tmp_path / "clean", passes.documents(COUNT), 2)
    passes.encode(source, tmp_path / "encode", tokenizer, parts=2, shards=SHARDS)
    other, reference = passes.tree(tmp_path / "encode"), passes.tree(encoded)
    assert {name for name in reference if other.get(name) != reference[name] and "records" not in name} == set()


def test_counts_add_up_and_documents_without_tokens_are_counted(tokenizer, tmp_path):
    found = passes.documents(10)
    found[4] = found[4].having(text="")
    source = passes.write_parts(tmp_path / "clean", found, 2)
    counts = passes.encode(source, tmp_path / "encode", tokenizer, parts=2, shards=2)
    assert (counts["documents_in"], counts["documents_out"], counts["rejected"]) == (10, 9, {"no_tokens": 1})
    assert counts["merged"] == {"documents": 9, "tokens": counts["tokens"]}
    stage = EncodeStage.__new__(EncodeStage)
    stage.check(counts)
    for broken in ({**counts, "tokens": counts["tokens"] + 1}, {**counts, "rejected": {}}):
        with pytest.raises(IntegrityError, match="do not add up"):
            stage.check(broken)


def test_a_part_that_failed_before_is_empty(tokenizer, tmp_path):
    source = passes.write_parts(tmp_path / "clean", passes.documents(8), 2)
    (source / "documents" / "000001.arrow").unlink()
    assert passes.encode(source, tmp_path / "encode", tokenizer, parts=2, shards=2)["documents_in"] == 4


def test_one_uid_twice_is_an_integrity_error(tokenizer, tmp_path):
    found = passes.documents(6)
    source = passes.write_parts(tmp_path / "clean", [*found, found[2]], 2)
    with pytest.raises(IntegrityError, match=found[2].uid.hex()):
        passes.encode(source, tmp_path / "encode", tokenizer, parts=2, shards=1)


def test_no_documents_is_a_configuration_error(tokenizer, tmp_path):
    source = passes.write_parts(tmp_path / "clean", [], 1)
    with pytest.raises(ConfigurationError, match="no documents to encode"):
        passes.encode(source, tmp_path / "encode", tokenizer, parts=1, shards=1)


def test_more_languages_than_codes_is_a_configuration_error(tokenizer, tmp_path):
    found = [document.having(language=f"x{number:03d}") for number, document in enumerate(passes.documents(256))]
    source = passes.write_parts(tmp_path / "clean", found, 1)
    with pytest.raises(ConfigurationError, match="256 languages"):
        passes.encode(source, tmp_path / "encode", tokenizer, parts=1, shards=1)


def test_a_damaged_run_is_an_integrity_error(source, tokenizer, tmp_path):
    passes.encode(source, tmp_path, tokenizer, parts=PARTS, shards=SHARDS)
    path = tmp_path / "tmp/runs/000000.arrow"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(IntegrityError, match="not a run"):
        runs.read_range(path, 0, np.uint16)


def test_the_manifest_leads_to_the_tokenizer(encoded, tokenizer):
    manifest = open_shards(encoded).manifest
    assert find_tokenizer(encoded / "manifest.json", manifest.tokenizer.fingerprint) == tokenizer.resolve()
    assert manifest.totals.tokens == sum(manifest.totals.tokens_by_language.values())
    assert manifest.totals.tokens == sum(manifest.totals.tokens_by_source.values())
    with pytest.raises(ConfigurationError, match="made with the tokenizer 00ff"):
        find_tokenizer(encoded / "manifest.json", "00ff")
