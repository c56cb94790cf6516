"""Samples of edits against all edits, sorted at once."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.execution.edit_samples import EditSamples, add_edit, merge_edits

EDITS = st.lists(st.tuples(st.sampled_from("ab"), st.binary(min_size=2, max_size=2)), max_size=40, unique=True)


@given(EDITS, st.integers(1, 5), st.integers(0, 99))
def test_the_smallest_uids_are_shown_for_any_division_into_units(edits, units: int, seed: int) -> None:
    shuffled = random.Random(seed).sample(edits, len(edits))
    parts: list[EditSamples] = [{} for _ in range(units)]
    for number, (kind, uid) in enumerate(shuffled):
        add_edit(parts[number % units], kind, uid, "here", uid.hex(), "")
    merged = merge_edits(parts)
    shown = {kind: [one["uid"] for one in samples] for kind, samples in merged.items()}
    wanted = {kind: sorted(uid.hex() for name, uid in edits if name == kind)[:3] for kind, _ in edits}
    assert shown == wanted
    assert list(shown) == sorted(shown)
    assert all(one["before"] == one["uid"] for samples in merged.values() for one in samples)


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("short [1].", "short .", ("short [1].", "short .")),
        ("x" * 500, "", ("x" * 240 + " …", "")),
        ("a" * 300 + "[1]b", "a" * 300 + "b", ("… " + "a" * 80 + "[1]b", "… " + "a" * 80 + "b")),
        (
            "a" * 100 + "[1]" + "b" * 300,
            "a" * 100 + "b" * 300,
            ("… " + "a" * 80 + "[1]" + "b" * 157 + " …", "… " + "a" * 80 + "b" * 160 + " …"),
        ),
    ],
    ids=["whole", "removed", "late", "within"],
)
def test_both_texts_are_cut_at_one_place_before_the_change(before: str, after: str, shown: tuple[str, str]) -> None:
    samples: EditSamples = {}
    add_edit(samples, "rule", b"u", "a.jsonl at 7", before, after)
    assert samples == {"rule": [{"uid": "75", "origin": "a.jsonl at 7", "before": shown[0], "after": shown[1]}]}
