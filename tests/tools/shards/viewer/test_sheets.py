"""Documents, sources and addresses of a row, against the corpus and against `explain_batch`."""

from __future__ import annotations

from clozeline.pipeline.shards import open_shards
from clozeline.tools.runs.data.feed import Feed
from clozeline.tools.shards.explain_batch import explain
from clozeline.tools.shards.inspect_shard import view_of
from clozeline.train.data.stream.phases import as_phases
from tests.tools.shards.viewer.shown_rows import part, text
from tests.tools.small_run import documents, example_sets


def test_all_documents_of_a_row_are_named(shard_sets):
    """Packed rows of short documents hold several; `explain_batch` names the same."""
    manifest, _ = example_sets(shard_sets)["causal_lm"]
    shards = open_shards(manifest)
    named = {
        (facts["shard"], facts["block"], facts["row"]): [other["document"] for other in facts["others"]]
        for facts in explain(Feed(as_phases(shards), 0, 1, len(shards)), 0)
    }
    several = 0
    for number in range(40):
        block, place = shards.locate(number)
        path = shards.shard_path(int(shards.index.shard[block])).name
        origin = part(view_of(manifest, number), "where it comes from")
        others = [text(value).split(":")[0] for name, value in origin.rows if name == "then document"]
        assert others == named[path, int(shards.index.block[block]), place]
        several += bool(others)
    assert several > 5


def test_provenance_names_document_source_and_url(shard_sets):
    by_uid = {document.uid: document for document in documents()}
    for path in ("encode", "corrupt/masked_lm/heldout", "corrupt/span_corruption/train"):
        facts = {text(name): text(value) for name, value in part(view_of(shard_sets / path, 2), "where").rows}
        document = by_uid[bytes.fromhex(facts["document"][:32])]
        assert facts["source"] == f"{document.source}, record at {document.offset:,}, 900 long"
        assert facts["url"] == document.url
        assert facts["language"] == "en"
