"""Rows and documents of sets are found, against loops over all rows and against the tokens
themselves."""

import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.shards import ShardSet, open_shards
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.tools.shards.provenance.document_table import (
    document_tables,
    read_table,
    tokenizer_folder,
    vocabulary_of_manifest,
)
from clozeline.tools.shards.provenance.packed_documents import Packing, packing_of
from clozeline.tools.shards.provenance.row_search import find_document_rows, find_rows
from tests.matrices import mark_slow_after
from tests.shard_sets import change_manifest, fixed, ordered, toy_set, write_set
from tests.tools.rewritten_set import fails
from tests.tools.small_run import build, example_sets


def everywhere(shards):
    found = {}
    for block in range(len(shards.index)):
        for row, uid in enumerate(shards.read_block(block).fixed["uid"].tolist()):
            found.setdefault(uid, []).append((block, row))
    return found


def test_rows_of_sets_in_order_and_of_others_are_found(shard_sets, tmp_path):
    for shards in (
        open_shards(example_sets(shard_sets)["masked_lm"][0]),
        toy_set(tmp_path, [9, 0, 13]),
    ):
        for uid, places in everywhere(shards).items():
            found = find_rows(shards, uid)
            assert [(one.block, one.row) for one in found] == places
            assert {one.uid for one in found} == {uid}


def test_a_shard_in_order_is_searched_by_halving(tmp_path, monkeypatch):
    shards = write_set(
        tmp_path,
        [
            ordered(range(1, 256)),
            ordered(range(300, 556)),
        ],
    )
    reads = []
    read = ShardSet.read_block
    monkeypatch.setattr(
        ShardSet,
        "read_block",
        lambda self, block, **options: reads.append(block) or read(self, block),
    )

    for uid, places in everywhere(shards).items():
        reads.clear()
        assert [(one.block, one.row) for one in find_rows(shards, uid)] == places
        # of 64 blocks in each shard: halved six times, the block and its neighbor
        assert len(set(reads)) <= 2 * 8


def test_token_sets_have_no_samples(shard_sets):
    with pytest.raises(ConfigurationError, match="a set of tokens have no sample uid"):
        find_rows(open_shards(shard_sets / "encode"), 1)


def rows_by_document(shards):
    """The rows that hold tokens of each document, from all blocks and the documents' order."""
    packing = packing_of(shards)
    rows_of = dict[bytes, set[tuple[int, int]]]()

    for block in range(len(shards.index)):
        rows = shards.read_block(block)
        for uid in {uid for found in packing.documents(rows) for uid in found} if packing else ():
            mask = packing.contains_documents(rows, np.frombuffer(uid, "S16"))
            rows_of.setdefault(uid, set()).update(
                (block, row) for row in np.flatnonzero(mask).tolist()
            )

        for row, uid in (
            enumerate(map(bytes, rows.fixed["document_uid"])) if packing is None else ()
        ):
            rows_of.setdefault(uid, set()).add((block, row))

    return {uid: rows for uid, rows in rows_of.items() if rows}


@pytest.fixture(scope="module")
def small_blocks(tmp_path_factory):
    """Sets of 8 shards with two rows a block."""
    labels = ("masked_lm", "document_rotation", "unilm_mixture")
    return build(tmp_path_factory.mktemp("blocks"), 120, 8, 2, labels)


@pytest.mark.parametrize(
    "label", mark_slow_after(1, ["masked_lm", "unilm_mixture", "document_rotation"])
)
def test_rows_of_a_document_are_found_in_their_shard(small_blocks, monkeypatch, label):
    shards = open_shards(small_blocks / "corrupt" / label / "train")
    reads = []
    read = ShardSet.read_block
    expected = rows_by_document(shards)
    monkeypatch.setattr(
        ShardSet,
        "read_block",
        lambda self, block, **how: reads.append(block) or read(self, block, **how),
    )

    for uid, places in list(expected.items())[::5]:
        reads.clear()
        found, untold = find_document_rows(shards, [uid])
        assert ({(one.block, one.row) for one in found}, untold) == (places, "")
        assert len(set(reads)) < len(shards.index) / 2, "one shard of each variant, of eight"

    wanted = list(expected)[:5]
    found, _ = find_document_rows(shards, wanted)

    assert {(one.block, one.row) for one in found} == set.union(*(expected[uid] for uid in wanted))


def texts(shard_sets):
    """Tokens of every document by uid."""
    tokens = open_shards(shard_sets / "encode")
    return {row.fixed["document_uid"].tobytes(): row["token_ids"].tolist() for row in tokens}


def packed(shard_sets):
    return [
        path for path in sorted(shard_sets.glob("group/*/*/manifest.json")) if "packed" in str(path)
    ]


def test_documents_of_a_row_are_those_whose_tokens_it_holds(shard_sets):
    """Each stretch between two document starts reads as the named document does, and no row has one
    more or less."""
    known = texts(shard_sets)

    assert len(packed(shard_sets)) > 6

    for path in packed(shard_sets):
        shards = open_shards(path)
        packing = packing_of(shards)

        for block in range(len(shards.index)):
            rows = shards.read_block(block)
            for row, uids in zip(rows, packing.documents(rows), strict=True):
                ends = [
                    *row["document_starts"][1:].tolist(),
                    len(row["ids"]),
                ]
                for uid, start, end in zip(
                    uids, row["document_starts"].tolist(), ends, strict=True
                ):
                    offset = int(row.fixed["document_offset"]) if start == 0 else 0
                    stretch = known[uid][offset : offset + end - start]
                    assert row["ids"][start : start + len(stretch)].tolist() == stretch
                    assert end - start - len(stretch) <= 1  # its separator


def test_a_row_that_opens_with_a_separator_holds_no_text_of_the_document_before_it():
    """Documents a b c d and e f with separators in rows of 4: `a b c d` and `</s> e f </s>`."""
    # zeros at either end are part of a uid
    first = bytes(15) + b"\1"
    second = b"\2" + bytes(15)
    packing = Packing(
        np.frombuffer(first + second, "S16"),
        np.array([0, 5]),
        np.array([4, 7]),
        np.zeros(2, np.int64),
        np.array([4]),
    )

    content = RowBatch(fixed(np.array([1, 2])))
    content.fixed["document_uid"][:] = np.frombuffer(first, np.uint8)
    content.fixed["document_offset"][:] = [0, 4]

    assert packing.documents(content) == [[first], [first, second]]

    for uid, held in ((first, [True, False]), (second, [False, True])):
        assert packing.contains_documents(content, np.frombuffer(uid, "S16")).tolist() == held


def test_another_token_set_is_not_believed(shard_sets, tmp_path):
    for name in ("group", "corrupt"):
        shutil.copytree(shard_sets / name, tmp_path / name)
    shutil.copytree(shard_sets / "group" / "packed-46-sep" / "train", tmp_path / "encode")
    for table in (shard_sets / "encode").glob("documents-*.arrow"):
        shutil.copy(table, tmp_path / "encode")

    assert packing_of(open_shards(tmp_path / "corrupt" / "masked_lm" / "train")) is None


def test_a_stage_on_another_disk_has_its_documents(shard_sets, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "corrupt").symlink_to(shutil.copytree(shard_sets / "corrupt", tmp_path / "corrupt"))
    for name in ("encode", "group"):
        (out / name).symlink_to(shard_sets / name)

    assert packing_of(open_shards(out / "corrupt" / "masked_lm" / "train")) is not None


def test_a_table_that_is_missing_is_named(shard_sets, tmp_path):
    for name in (
        "shard-00000-of-00002.arrow",
        "shard-00001-of-00002.arrow",
        "documents-00000-of-00002.arrow",
    ):
        (tmp_path / "encode" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "encode" / name).touch()

    with pytest.raises(
        IntegrityError,
        match=r"encode/documents-00001-of-00002\.arrow: the document table is missing",
    ):
        document_tables(tmp_path / "corrupt" / "train" / "manifest.json")

    (tmp_path / "encode" / "documents-00001-of-00002.arrow").touch()
    (tmp_path / "encode" / "shard-00000-of-00002.arrow").unlink()

    assert len(document_tables(tmp_path / "corrupt" / "train" / "manifest.json")) == 2, (
        "also of a missing shard"
    )
    assert document_tables(tmp_path.parent / "nothing" / "manifest.json") == []


def test_another_file_of_that_name_is_refused(tmp_path):
    path = tmp_path / "documents-00000-of-00001.arrow"
    path.write_bytes(b"something else")
    with pytest.raises(IntegrityError, match="not a document table"):
        read_table(path, ("uid",))
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_file(sink, pa.schema([("uid", pa.int8())])) as writer,
    ):
        writer.write(pa.record_batch({"uid": pa.array([1], pa.int8())}))

    with pytest.raises(IntegrityError, match="no tokens"):
        read_table(path, ("uid", "tokens"))


def test_it_is_found_above_the_set_or_in_any_folder_that_leads_to_it(shard_sets, tmp_path):
    manifest = example_sets(shard_sets)["masked_lm"][0]
    shards = open_shards(manifest)
    folder = (shard_sets / "train_tokenizer" / "tokenizer").resolve()

    assert tokenizer_folder(shards).resolve() == folder

    moved = open_shards(shutil.copytree(manifest.parent, tmp_path / "moved"))
    with pytest.raises(ConfigurationError, match="no train_tokenizer/tokenizer above"):
        tokenizer_folder(moved)
    for given in (folder, shard_sets, shard_sets / "encode", manifest.parent):
        assert tokenizer_folder(moved, given).resolve() == folder
    with pytest.raises(ConfigurationError, match=rf"tokenizer={tmp_path}: no tokenizer here"):
        tokenizer_folder(moved, tmp_path)


def test_another_tokenizer_is_refused(shard_sets, tmp_path):
    shards = open_shards(example_sets(shard_sets)["masked_lm"][0])
    other = shutil.copytree(shard_sets / "train_tokenizer" / "tokenizer", tmp_path / "other")
    replace(Vocabulary.load(other / "vocabulary.json"), fingerprint="0" * 64).save(
        other / "vocabulary.json"
    )

    with pytest.raises(
        ConfigurationError, match=f"has the fingerprint {'0' * 64}, but .* was made with"
    ):
        tokenizer_folder(shards, other)


def test_a_manifest_knows_size_and_special_ids_and_takes_each_piece_for_a_word(shard_sets):
    facts = open_shards(example_sets(shard_sets)["masked_lm"][0]).manifest.tokenizer
    whole = load_tokenizer(shard_sets / "train_tokenizer" / "tokenizer").vocabulary
    found = vocabulary_of_manifest(facts)

    assert (found.size, found.specials, found.sentinels, found.fingerprint) == (
        whole.size,
        whole.specials,
        whole.sentinels,
        whole.fingerprint,
    )
    assert not (found.special & ~whole.special).any()
    assert set(np.flatnonzero(found.special)) == {
        *whole.specials.values(),
        *whole.sentinels,
    }
    assert (found.word_start == ~found.special).all()


@pytest.mark.parametrize(
    ("key", "change"),
    [
        (
            "special_ids",
            lambda facts: facts["special_ids"].update(mask=facts["special_ids"]["pad"]),
        ),
        ("vocab_size", lambda facts: facts.update(vocab_size=facts["vocab_size"] + 1)),
        ("sentinels", lambda facts: facts.update(sentinels=facts["sentinels"][::-1])),
    ],
)
def test_a_manifest_that_misdescribes_its_tokenizer_is_found(output, capsys, key, change):
    manifest, _ = example_sets(output)["span_corruption"]
    change_manifest(manifest.parent, lambda plain: change(plain["tokenizer"]))
    assert f"{manifest}: tokenizer.{key}: expected" in fails(capsys, manifest)
