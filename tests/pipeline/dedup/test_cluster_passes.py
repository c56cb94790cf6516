"""Clusters over ranges are those of one process that holds everything, byte for byte."""

from __future__ import annotations

import random

import pytest

from clozeline.errors import IntegrityError
from clozeline.pipeline.dedup.cluster_passes import NearMembers
from clozeline.pipeline.execution import exchange
from clozeline.pipeline.execution.unit_record import Output
from tests.pipeline.dedup.candidate_graphs import Candidates, OverRanges, at_once, graphs
from tests.pipeline.dedup.dedup_documents import document, edited, prose


def compare(tmp_path, groups, size, parts, ranges, verify, reverse=False):
    candidates = Candidates(groups, size, parts, random.Random(size + parts))
    run = OverRanges(tmp_path / "run", candidates, ranges, verify)
    counts = run.run(reverse)
    files, drops, amounts = at_once(candidates, ranges, verify, tmp_path)
    assert counts == amounts
    assert run.drops() == drops
    assert run.clusters() == files
    return run


@pytest.mark.parametrize("verify", [None, 0.5])
@pytest.mark.parametrize("shape", sorted(graphs(random.Random(0), 20)))
def test_clusters_equal_those_of_one_process(tmp_path, shape, verify):
    for ranges, parts in ((1, 1), (1, 3), (2, 2), (3, 1), (7, 5)):
        groups = graphs(random.Random(ranges), 60)[shape]
        compare(tmp_path / f"{ranges}-{parts}", groups, 60, parts, ranges, verify, reverse=ranges == 3)


@pytest.mark.slow
@pytest.mark.parametrize("verify", [None, 0.4, 0.75])
@pytest.mark.parametrize("shape", sorted(graphs(random.Random(0), 20)))
def test_clusters_equal_those_of_one_process_over_many_ranges(tmp_path, shape, verify):
    for ranges in (1, 2, 3, 4, 5, 6, 7, 20, 65):
        for parts in (1, 2, 7):
            groups = graphs(random.Random(31 * ranges + parts), 600)[shape]
            compare(tmp_path / f"{ranges}-{parts}", groups, 600, parts, ranges, verify, reverse=parts == 2)


def test_bundles_between_the_passes_change_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(exchange, "_GROUP", 2)
    monkeypatch.setattr(exchange, "_FEWEST", 4)
    run = compare(tmp_path, graphs(random.Random(5), 80)["tree"], 80, parts=6, ranges=5, verify=0.5)
    bundled = {path.name for path in (run.parts.folder / "tmp").glob("*-bundles")}
    assert bundled >= {f"near-{kind}-bundles" for kind in ("links-1", "links-2", "answers-2", "members", "clusters")}
    assert bundled >= {"near-decisions-bundles", "near-drops-bundles"}


def test_a_copy_in_another_part_names_the_document_that_is_kept_in_the_end(run_dedup):
    rows, copies = [], []
    for number in range(12):
        base = prose(number)
        near = document(100 + number, edited(base, 3, 4) + " and longer")
        rows += [document(number, base), near]
        copies += [document(200 + number, base), document(300 + number, base)]
    parts = [rows, copies[::2], copies[1::2], []]
    for shards in (1, 5):
        result = run_dedup(parts, {}, shards=shards, reverse=shards == 5)
        kept = {row.text: row.uid for row in result.documents()}
        details = {uid: row.detail for uid, row in result.rejections().items()}
        assert len(kept) == 12
        for number, near in enumerate(rows[1::2]):
            uids = [rows[2 * number].uid, *(row.uid for row in copies[2 * number : 2 * number + 2])]
            assert {details[uid] for uid in uids} == {kept[near.text].hex()}


def test_a_missing_answer_is_refused(tmp_path):
    candidates = Candidates(graphs(random.Random(5), 40)["path"], 40, 3, random.Random(1))
    run = OverRanges(tmp_path, candidates, 3, None)
    run.run()
    answers = sorted((run.parts.folder / "tmp/near-answers-2").iterdir())
    other = OverRanges(tmp_path / "other", Candidates([], 40, 3, random.Random(1)), 3, None)
    other.run()
    for path in answers:
        path.write_bytes((other.parts.folder / "tmp/near-answers-2" / path.name).read_bytes())
    with pytest.raises(IntegrityError, match="expected an answer of level 2"):
        NearMembers(3, run.parts, run.parameters).run(0, Output(run.parts.folder))
