"""The documents of packed rows, against the tokens themselves."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from clozeline.pipeline.rows import Rows
from clozeline.pipeline.shards import open_shards
from clozeline.tools.shards.provenance.packed_documents import Packing, packing_of
from tests.shard_sets import fixed


def texts(shard_sets):
    """Tokens of every document by uid."""
    tokens = open_shards(shard_sets / "encode")
    return {
        row.fixed["document_uid"].tobytes(): row["token_ids"].tolist()
        for block in range(len(tokens.index))
        for row in tokens.read_block(block)
    }


def packed(shard_sets):
    return [path for path in sorted(shard_sets.glob("group/*/*/manifest.json")) if "packed" in str(path)]


def test_documents_of_a_row_are_those_whose_tokens_it_holds(shard_sets):
    """Each stretch between two document starts reads as the named document does, and no row has one more or less."""
    known = texts(shard_sets)
    assert len(packed(shard_sets)) > 6
    for path in packed(shard_sets):
        shards = open_shards(path)
        packing = packing_of(shards)
        assert packing is not None
        for block in range(len(shards.index)):
            rows = shards.read_block(block)
            for row, uids in zip(rows, packing.documents(rows), strict=True):
                ends = [*row["document_starts"][1:].tolist(), len(row["ids"])]
                for uid, start, end in zip(uids, row["document_starts"].tolist(), ends, strict=True):
                    offset = int(row.fixed["document_offset"]) if start == 0 else 0
                    stretch = known[uid][offset : offset + end - start]
                    assert row["ids"][start : start + len(stretch)].tolist() == stretch
                    assert end - start - len(stretch) <= 1  # its separator


def test_rows_that_hold_a_document_have_all_its_tokens(shard_sets):
    known = texts(shard_sets)
    for path in packed(shard_sets):
        shards = open_shards(path)
        packing = packing_of(shards)
        blocks = [shards.read_block(block) for block in range(len(shards.index))]
        held = {uid for rows in blocks for found in packing.documents(rows) for uid in found}
        dropped = bool(shards.manifest.totals.skipped)
        for uid in held:
            found = 0
            for rows in blocks:
                chosen = packing.contains_documents(rows, np.frombuffer(uid, "S16"))
                for row, uids, here in zip(rows, packing.documents(rows), chosen.tolist(), strict=True):
                    place = uids.index(uid) if uid in uids else None
                    mine = 0 if place is None else tokens_of(row, place, len(known[uid]))
                    assert here == (mine > 0)
                    found += mine
            assert found == len(known[uid]) or dropped


def tokens_of(row, place, length):
    """Tokens that the document at a place in a row has there."""
    bounds = [*row["document_starts"].tolist(), len(row["ids"])]
    offset = int(row.fixed["document_offset"]) if place == 0 else 0
    return min(bounds[place + 1] - bounds[place], length - offset)


def test_a_row_that_opens_with_a_separator_holds_no_text_of_the_document_before_it():
    """Documents a b c d and e f with separators in rows of 4: `a b c d` and `</s> e f </s>`."""
    first, second = bytes(15) + b"\1", b"\2" + bytes(15)  # zeros at either end are part of a uid
    packing = Packing(
        np.frombuffer(first + second, "S16"), np.array([0, 5]), np.array([4, 7]), np.zeros(2, np.int64), np.array([4])
    )
    content = Rows(fixed(np.array([1, 2])))
    content.fixed["document_uid"][:] = np.frombuffer(first, np.uint8)
    content.fixed["document_offset"][:] = [0, 4]
    assert packing.documents(content) == [[first], [first, second]]
    for uid, held in ((first, [True, False]), (second, [False, True])):
        assert packing.contains_documents(content, np.frombuffer(uid, "S16")).tolist() == held


@pytest.mark.parametrize("missing", ["group", "encode"])
def test_without_samples_or_tables_nothing_is_claimed(shard_sets, tmp_path, missing):
    for name in {"group", "encode", "corrupt"} - {missing}:
        shutil.copytree(shard_sets / name, tmp_path / name)
    examples = open_shards(tmp_path / "corrupt" / "masked_lm" / "train")
    assert packing_of(examples) is None
    shutil.copytree(shard_sets / missing, tmp_path / missing)
    assert packing_of(examples) is not None


def test_another_token_set_is_not_believed(shard_sets, tmp_path):
    for name in ("group", "corrupt"):
        shutil.copytree(shard_sets / name, tmp_path / name)
    shutil.copytree(shard_sets / "group" / "packed-46-sep" / "train", tmp_path / "encode")
    for table in (shard_sets / "encode").glob("documents-*.arrow"):
        shutil.copy(table, tmp_path / "encode")
    assert packing_of(open_shards(tmp_path / "corrupt" / "masked_lm" / "train")) is None
