"""Groupings: nothing is lost, rows laid end to end are the documents again, and the cuts are those
of plain loops."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.group.groupings import Context, GroupingSpec, MinimumRow, build_grouping
from clozeline.pipeline.registries import GROUPINGS
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.seeding import (
    sample_uid,
)
from tests.contracts import contract
from tests.pipeline.corruption_cases import EOS, SEP, vocabulary
from tests.pipeline.token_rows import documents, many_documents
from tests.refusals import refused

WORDS = vocabulary(1000)
EXTRA = {"none": [], "sep": [SEP], "eos": [EOS]}
each = contract(GROUPINGS)
minimums = st.builds(MinimumRow, st.integers(1, 4), st.integers(1, 2))


def run(rows, name, length, minimum=None, separator="none"):
    spec = GroupingSpec(name, length, separator)
    grouped = build_grouping(spec, WORDS).group(rows, minimum or MinimumRow(), Context(spec.label))
    return grouped.rows, grouped.counts


@each
@settings(max_examples=60)
@given(rows=many_documents(), length=st.integers(2, 9), minimum=minimums)
def test_tokens_in_are_tokens_in_rows_or_dropped(name, rows, length, minimum):
    found, counts = run(rows, name, length, minimum)
    tokens = rows.columns["token_ids"]
    targets = rows.columns["target_ids"]
    pairs = "target_ids" in found.columns

    assert len(tokens.values) + pairs * len(targets.values) == counts["tokens_in_samples"] + sum(
        counts["tokens_dropped"].values()
    )

    empty = (tokens.lengths == 0) | (pairs & (targets.lengths == 0))

    assert counts["documents_dropped"]["empty"] == int(empty.sum())
    assert set(counts["tokens_dropped"]) <= {
        "too_short",
        "one_sentence",
        "no_partner",
        "empty",
        "cut",
    }

    uids = rows.fixed["document_uid"]

    for row in found:
        assert minimum.tokens <= len(row["ids"]) <= length

        starts = row["sentence_starts"]

        assert len(starts) >= minimum.sentences
        assert starts[0] == 0
        assert (np.diff(starts.astype(int)) > 0).all()
        assert starts[-1] < len(row["ids"])

        document = next(i for i, uid in enumerate(uids) if (uid == row.fixed["document_uid"]).all())
        offset = int(row.fixed["document_offset"])

        assert tokens[document][offset] == row["ids"][0]
        assert row.fixed["language"] == document % 3

        label = GroupingSpec(name, length).label

        assert int(row.fixed["uid"]) == sample_uid(uids[document].tobytes(), 0, offset, label)
        assert (
            row.fixed["copy"],
            row.fixed["part"],
            row.fixed["variant"],
        ) == (0, 0, 0)

    features = build_grouping(GroupingSpec(name, length), WORDS).columns

    assert list(found.columns) == [feature.name for feature in features]


@each
@pytest.mark.parametrize(
    ("length", "dtype"),
    [
        (65_535, np.uint16),
        (65_536, np.uint32),
        (70_000, np.uint32),
    ],
)
def test_places_have_32_bits_where_rows_need_them(name, length, dtype):
    ids = [200 + place % 300 for place in range(200_000)]
    starts = [*range(0, 200_000, 40), 199_999]
    rows = documents(
        [ids, [*ids, 300]],
        [starts, starts],
        [[400], [400]],
    )
    found, _ = run(rows, name, length)
    columns = {key: column for key, column in found.columns.items() if key.endswith("_starts")}

    assert {column.values.dtype.type for column in columns.values()} == {dtype}
    assert int(columns["sentence_starts"].values.max()) > length - 82

    whole = np.concatenate(
        [row["sentence_starts"].astype(int) + int(row.fixed["document_offset"]) for row in found]
    )

    assert (
        set(starts) <= set(whole.tolist())
        or {"document_starts", "target_ids"} & found.columns.keys()
        or name == "truncated"
    )


@given(
    st.lists(
        st.tuples(
            st.integers(0, 6),
            st.integers(0, 6),
            st.integers(0, 3),
        ),
        max_size=20,
    ),
    minimums,
)
def test_a_row_is_dropped_for_one_reason_too_short_first(rows, minimum):
    lengths, content, sentences = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    kept, dropped = minimum.filter(lengths, content, sentences)
    wanted = Counter()

    for row, (length, tokens, starts) in enumerate(rows):
        reason = (
            "too_short"
            if length < minimum.tokens
            else "one_sentence"
            if starts < minimum.sentences
            else None
        )

        assert kept[row] == (reason is None)

        if reason and tokens:
            wanted[reason] += tokens

    assert dropped == wanted


# Plain loops
# --------------------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(rows=many_documents(), length=st.integers(1, 9))
def test_windows_of_documents_are_those_of_a_plain_loop(rows, length):
    """A window ends with the last sentence that fits, or is full where none does.

    The rest of a document is one.
    """
    found, _ = run(rows, "document", length)
    wanted = []

    for document in rows:
        ids = document["token_ids"].tolist()
        starts = document["sentence_starts"].tolist()
        first = 0
        while first < len(ids):
            ends = [start for start in starts if first < start <= first + length]
            last = len(ids) if len(ids) - first <= length else ends[-1] if ends else first + length
            wanted.append(
                (
                    ids[first:last],
                    [
                        0,
                        *(start - first for start in starts if first < start < last),
                    ],
                )
            )
            first = last

    assert [(row["ids"].tolist(), row["sentence_starts"].tolist()) for row in found] == wanted


@each
@settings(max_examples=60)
@given(
    rows=many_documents(),
    length=st.integers(2, 9),
    minimum=minimums,
    data=st.data(),
)
def test_rows_keep_the_word_starts_of_their_documents(name, rows, length, minimum, data):
    """Each token is unlike all others, so a row tells which of its tokens open a word.

    The first one of the row, or of a document in it, does.
    """
    tokens = rows.columns["token_ids"]
    starts = [
        sorted(
            {
                0,
                *data.draw(st.sets(st.integers(0, size - 1))),
            }
        )
        if size
        else []
        for size in tokens.lengths
    ]
    words = Ragged.from_lists(starts, np.uint32)
    opens = {int(tokens[document][start]) for document, some in enumerate(starts) for start in some}
    grouping = build_grouping(GroupingSpec(name, length), WORDS)
    spec = GroupingSpec(name, length)
    grouped = grouping.group(
        RowBatch(rows.fixed, {**rows.columns, "word_starts": words}), minimum, Context(spec.label)
    )
    found = grouped.rows
    plain = run(rows, name, length, minimum)[0]

    assert list(found.columns) == [feature.name for feature in grouping.columns_of(words=True)]

    for column in plain.columns:
        assert np.array_equal(found.columns[column].values, plain.columns[column].values), (
            "the others stay"
        )

    for row in found if grouping.keeps_words else ():
        ids = row["ids"].tolist()
        begins = {0, *(row["document_starts"].tolist() if grouping.holds_documents else ())}
        wanted = [place for place, token in enumerate(ids) if place in begins or token in opens]
        assert row["word_starts"].tolist() == wanted


def test_a_separator_may_open_a_row():
    """The next document's first token is then that of the row."""
    found, counts = run(
        documents([[200, 201], [202, 203]], [[0], [0]]), "packed", 2, separator="sep"
    )

    assert [row["ids"].tolist() for row in found] == [[200, 201], [SEP, 202], [203, SEP]]
    assert (
        found.columns["document_starts"][1].tolist()
        == found.columns["sentence_starts"][1].tolist()
        == [0, 1]
    )
    assert found.fixed["document_offset"].tolist() == [0, 2, 1]
    assert (counts["tokens_in_samples"], counts["separators"]) == (4, 2)


def plain_rows(rows, length, extra):
    """Full sentences by a loop: one is added where it fits, and cut where no row could hold it."""
    sentences = []

    for document in rows:
        ids = document["token_ids"].tolist()
        starts = document["sentence_starts"].tolist()
        if ids:
            sentences += [ids[a:b] for a, b in zip(starts, [*starts[1:], len(ids)], strict=True)]
            sentences[-1] = sentences[-1] + extra

    found = []
    row = []

    for sentence in sentences:
        rest = sentence
        if row and len(row) + len(rest) > length:
            found.append(row)
            row = []

        while len(rest) > length:
            found.append(rest[:length])
            rest = rest[length:]

        row = row + rest

    return [*found, row] if row else found


@settings(max_examples=200)
@given(
    rows=many_documents(),
    length=st.integers(1, 9),
    separator=st.sampled_from([*EXTRA]),
)
def test_rows_of_full_sentences_are_those_of_a_plain_loop(rows, length, separator):
    found, counts = run(rows, "full_sentences", length, separator=separator)

    assert [row["ids"].tolist() for row in found] == plain_rows(rows, length, EXTRA[separator])
    assert counts["tokens_in_samples"] == int(rows.columns["token_ids"].lengths.sum())


@given(rows=many_documents(), length=st.integers(1, 9))
def test_a_truncated_row_is_the_start_of_its_document(rows, length):
    found, counts = run(rows, "truncated", length)
    texts = [row["token_ids"].tolist() for row in rows if len(row["token_ids"])]

    assert [row["ids"].tolist() for row in found] == [text[:length] for text in texts]
    assert counts["tokens_dropped"].get("cut", 0) == sum(len(text[length:]) for text in texts)


# Specifications
# --------------------------------------------------------------------------------------------------


def test_labels_are_canonical_fit_a_path_and_build_the_same_grouping():
    spec = GroupingSpec.of(
        "packed",
        {
            "length": 30,
            "separator": "eos",
            "parts": [[9, 400_000], [30, 600_000]],
        },
    )

    assert (
        GroupingSpec.of(
            "packed", {key: value for key, value in spec.entry().items() if key != "name"}
        )
        == spec
    )

    built = build_grouping(spec, WORDS)

    assert (built.options.length, built.options.separator) == (30, "eos")
    assert spec.label == "packed-30-eos-parts=9x400000_30x600000"

    spec = GroupingSpec("sentence_pair", 509, options=(("partner", True), ("short_rate", 0.1)))

    assert spec.label == "sentence_pair-509-none-partner=True-short_rate=0.1"
    assert GroupingSpec("x", 1, options=(("path", "../a b"),)).label == "x-1-none-path=.._a_b"

    parts = [[length, 1] for length in range(1, 60)]
    labels = {
        GroupingSpec.of("packed", {"length": last, "parts": parts[:last]}).label
        for last in (40, 41)
    }

    assert len(labels) == 2, "long options are named by their hash"
    assert all(len(label) < 60 for label in labels)
    assert GroupingSpec.of("packed", {"length": 9, "parts": parts[:40]}).label.startswith(
        "packed-9-none-parts=40."
    )


LACKING = vocabulary()
del LACKING.specials["sep"]


@pytest.mark.parametrize(
    ("name", "options", "words", "message"),
    [
        (
            "packed",
            {"length": 9, "parts": ((9, 500_000), (9, 400_000))},
            WORDS,
            "sum to 1000000",
        ),
        (
            "packed",
            {"length": 9, "parts": ((9, 500_000), (0, 500_000))},
            WORDS,
            "1 or more",
        ),
        ("packed", {"length": 10, "separator": "dash"}, WORDS, "separator"),
        ("packed", {"length": 10, "separator": "sep"}, LACKING, "needs the special token 'sep'"),
        ("full_sentences", {"length": 10, "separator": "sep"}, LACKING, "grouping full_sentences"),
        ("parallel", {"length": 10, "cut": "source"}, WORDS, "target_length"),
        ("parallel", {"length": 10, "cut": "longer", "target_length": 4}, WORDS, "target_length"),
        (
            "parallel",
            {"length": 10, "cut": "longer", "sources": [("a", 5, 1)]},
            WORDS,
            "sources",
        ),
        ("parallel", {"length": 10, "cut": "shorter"}, WORDS, "cut"),
    ],
)
def test_wrong_options(name, options, words, message):
    with refused(message):
        build_grouping(GroupingSpec.of(name, options), words)


# Parts of a mixture
# --------------------------------------------------------------------------------------------------
