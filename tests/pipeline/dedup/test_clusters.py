from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.dedup.clusters import resolve, smallest_uids
from clozeline.pipeline.dedup.columns import uid_column
from tests.pipeline.dedup.dedup_documents import document, edited, prose


def test_verify_breaks_a_chain_and_without_it_the_chain_goes_together(run_dedup):
    first = prose(3)
    middle = edited(first, *range(5, 25))
    last = edited(middle, *range(100, 120))
    # A ~ B and B ~ C share about 0.78 of their shingles, A and C about 0.6.
    a, b, c = (document(n, text) for n, text in enumerate((first + " longest of all", middle, last)))
    whole = run_dedup([[a, b, c]], {"exact": None, "near": {"verify": None, "bands": 40}})
    assert [row.uid for row in whole.documents()] == [a.uid]
    for order in itertools.permutations((a, b, c)):
        checked = run_dedup([order[:1], order[1:]], {"exact": None, "near": {"bands": 40}})
        assert {row.uid for row in checked.documents()} == {a.uid, c.uid}


def test_members_that_leave_a_cluster_are_compared_among_themselves(run_dedup):
    first = prose(4)
    far = edited(first, *range(20, 48))
    rows = [document(0, first + " longest"), document(1, far), document(2, far + " x"), document(3, edited(far, 199))]
    result = run_dedup([rows], {"exact": None, "near": {"bands": 60, "rows": 5}})
    assert {row.uid for row in result.documents()} == {rows[0].uid, rows[2].uid}


def slow_clusters(groups, uids, merit, sketches, verify):
    """For each document the one kept in its place: sets of documents joined one shared key at a time."""
    kept, pending = list(range(len(uids))), set(range(len(uids)))
    while True:
        shared = [members & pending for members in groups]
        components = [members for members in shared if len(members) > 1]
        joined = []
        for members in components:
            touching = [one for one in joined if one & members]
            joined = [one for one in joined if not one & members] + [members.union(*touching)]
        if not joined:
            return kept
        pending = set()
        for members in joined:
            best = min(members, key=lambda row: (-merit[row], uids[row]))
            for row in members:
                likeness = sum(a == b for a, b in zip(sketches[row], sketches[best], strict=True)) / len(sketches[row])
                if verify is None or likeness >= verify:
                    kept[row] = best
                else:
                    pending.add(row)


@settings(max_examples=60)
@given(st.data(), st.integers(1, 12), st.sampled_from([None, 0.5, 0.75, 1.0]))
def test_clusters_equal_a_slow_rule_over_sets(data, count, verify):
    groups = data.draw(st.lists(st.sets(st.integers(0, count - 1), min_size=1), max_size=8))
    merit = data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    sketches = data.draw(st.lists(st.tuples(*[st.integers(0, 1)] * 4), min_size=count, max_size=count))
    uids = [bytes([97 * row % 251]) * 16 for row in range(count)]
    keys = [(key, row) for key, members in enumerate(groups) for row in members]
    pairs = data.draw(st.permutations(keys))
    kept, similarity = resolve(
        np.array([key for key, _ in pairs], np.uint64),
        np.array([row for _, row in pairs], np.int64),
        uid_column(uids),
        np.array(merit, np.int64),
        np.array(sketches, np.uint16),
        verify,
    )
    assert kept.tolist() == slow_clusters(groups, uids, merit, sketches, verify)
    alike = (np.array(sketches) == np.array(sketches)[kept]).mean(axis=1)
    assert similarity.tolist() == alike.tolist()
    smallest = [min((r for r in range(count) if kept[r] == each), key=lambda r: uids[r]) for each in kept]
    assert smallest_uids(kept, uid_column(uids)).tolist() == smallest
