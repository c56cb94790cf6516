"""Documents of rows: all of them in their order, with the source that the token set of the run knows."""

from __future__ import annotations

import shutil

from clozeline.pipeline.shards import open_shards
from clozeline.tools.shards.provenance.row_origins import documents_of, partners_of
from tests.tools.small_run import documents, example_sets


def stored(shards, numbers):
    found = {}
    for number in numbers:
        block, row = shards.locate(number)
        rows = shards.read_block(block)
        found[block, row] = rows.take([row])
    return found


def test_documents_come_with_their_source_and_address(shard_sets):
    known = {document.uid.hex(): document for document in documents()}
    shards = open_shards(example_sets(shard_sets)["causal_lm"][0])
    rows = stored(shards, range(0, 60, 3))
    origins = documents_of(shards, rows)
    assert origins.keys() == rows.keys()
    several = 0
    for at, found in origins.items():
        assert found[0]["document"] == rows[at].fixed["document_uid"].tobytes().hex()
        assert len({facts["document"] for facts in found}) == len(found)
        several += len(found) > 1
        for facts in found:
            document = known[facts["document"]]
            assert facts == {
                "document": document.uid.hex(),
                "source": document.source,
                "source_offset": document.offset,
                "url": document.url,
            }
    assert several > 5
    assert documents_of(shards, {}) == {}
    assert partners_of(shards, rows) == {}, "packed rows are no pairs"


def test_a_set_alone_names_the_first_document_without_a_source(shard_sets, tmp_path):
    folder = shutil.copytree(example_sets(shard_sets)["causal_lm"][0].parent, tmp_path / "alone")
    shards = open_shards(folder)
    rows = stored(shards, [0, 5])
    assert documents_of(shards, rows) == {
        at: [{"document": row.fixed["document_uid"].tobytes().hex()}] for at, row in rows.items()
    }
