from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.errors import ConfigurationError
from clozeline.pipeline.group.groupings import GroupingSpec, MinimumRow, build_grouping
from tests.pipeline.group.groupings.grouped_rows import WORDS


def test_labels_are_canonical_and_fit_a_path():
    assert GroupingSpec("packed", 510, "sep").label == "packed-510-sep"
    spec = GroupingSpec("sentence_pair", 509, options=(("partner", True), ("short_rate", 0.1)))
    assert spec.label == "sentence_pair-509-none-partner=True-short_rate=0.1"
    assert GroupingSpec("x", 1, options=(("path", "../a b"),)).label == "x-1-none-path=.._a_b"
    assert GroupingSpec.of("packed", {"length": 4, "separator": "eos"}) == GroupingSpec("packed", 4, "eos")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (((9, 500_000), (14, 400_000)), "sum to 1000000"),
        (((9, 500_000), (0, 500_000)), "1 or more"),
    ],
)
def test_wrong_parts(parts, message):
    with pytest.raises(ConfigurationError, match=message):
        build_grouping(GroupingSpec.of("packed", {"length": max(parts)[0], "parts": parts}), WORDS)


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 3)), max_size=20),
    st.builds(MinimumRow, st.integers(1, 4), st.integers(1, 2)),
)
def test_a_row_is_dropped_for_one_reason_too_short_first(rows, minimum):
    lengths, content, sentences = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    kept, dropped = minimum.filter(lengths, content, sentences)
    wanted = Counter()
    for row, (length, tokens, starts) in enumerate(rows):
        reason = "too_short" if length < minimum.tokens else "one_sentence" if starts < minimum.sentences else None
        assert kept[row] == (reason is None)
        if reason and tokens:
            wanted[reason] += tokens
    assert dropped == wanted


def test_an_entry_of_a_spec_builds_the_same_grouping():
    spec = GroupingSpec.of("packed", {"length": 30, "separator": "eos", "parts": [[9, 400_000], [30, 600_000]]})
    assert GroupingSpec.of("packed", {key: value for key, value in spec.entry().items() if key != "name"}) == spec
    built = build_grouping(spec, WORDS)
    assert (built.options.length, built.options.separator) == (30, "eos")
    assert spec.label == "packed-30-eos-parts=9x400000_30x600000"


def test_long_options_are_named_by_their_hash():
    parts = [[length, 1] for length in range(1, 60)]
    labels = {GroupingSpec.of("packed", {"length": last, "parts": parts[:last]}).label for last in (40, 41)}
    assert len(labels) == 2
    assert all(len(label) < 60 for label in labels)
    assert GroupingSpec.of("packed", {"length": 9, "parts": parts[:40]}).label.startswith("packed-9-none-parts=40.")
