from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.shards.layout import is_heldout
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.seeding import order_key
from tests.pipeline.tokenize.encode import encode_passes as passes


def test_rows_stand_in_order_of_key_and_uid(encoded):
    keys = [(order_key(uid, "order", passes.SEED), uid) for uid in passes.token_rows(encoded)]
    assert keys == sorted(keys)


def test_documents_table_says_where_each_row_came_from(encoded):
    by_uid = {document.uid: document for document in passes.documents(passes.COUNT)}
    found = passes.token_rows(encoded)
    uids = []
    for shard in range(passes.SHARDS):
        path = encoded / f"documents-{shard:05d}-of-{passes.SHARDS:05d}.arrow"
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
    for uid, (_, ids, *_) in passes.token_rows(encoded).items():
        if is_heldout(uid, passes.HELDOUT, passes.SEED):
            held += 1
        else:
            counted.update(ids.tolist())
    table = pa.ipc.open_file(encoded / "token_counts.arrow").read_all().to_pydict()
    ids = range(open_shards(encoded).manifest.tokenizer.vocab_size)
    assert table["id"] == list(ids)
    assert dict(zip(table["id"], table["count"], strict=True)) == {token: counted[token] for token in ids}
    assert 0 < held < passes.COUNT


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
    found = [document.replace(language=f"x{number:03d}") for number, document in enumerate(passes.documents(256))]
    source = passes.write_parts(tmp_path / "clean", found, 1)
    with pytest.raises(ConfigurationError, match="256 languages"):
        passes.encode(source, tmp_path / "encode", tokenizer, parts=1, shards=1)


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
