"""Pieces of single texts: their hashes, and what is left without some of them."""

import pytest

from clozeline.pipeline.dedup.repeats import LinePieces, SpanPieces
from clozeline.pipeline.text.sentences.regex import Regex
from tests.pipeline.dedup.dedup_documents import document
from tests.pipeline.dedup.repeated_texts import documents, without_lines, without_spans


def lines(min_letters=1):
    return LinePieces(1, False, "all", 1, min_letters=min_letters)


def spans(sentences):
    return SpanPieces(None, True, "all", sentences)


ALONE = {"exact": None, "near": None}


def left_by(result):
    return {row.uid: row.text for row in result.documents()}


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({}, (1, False, 1, False)),
        ({"keep": "first", "max_documents": 2}, (2, True, 1, False)),
        (
            {
                "min_letters": 16,
                "within": "source",
                "max_documents": 3,
            },
            (3, False, 16, True),
        ),
    ],
)
def test_lines_of_many_documents_are_removed(run_dedup, options, rule):
    rows = documents(1, 2000)
    result = run_dedup(
        [rows[:700], [], rows[700:]],
        {**ALONE, "lines": options},
        shards=3,
    )
    expected = without_lines(rows, *rule)

    assert left_by(result) == {uid: text for uid, text in expected.items() if text}
    assert {row.uid for row in result.rejections().values()} == {
        uid for uid, text in expected.items() if not text
    }
    assert {row.reason for row in result.rejections().values()} <= {"repeated_lines"}

    check_characters(rows, result, "lines")


def test_spans_of_sentences_stay_where_they_occur_first(run_dedup):
    rows = documents(2, 2000)
    result = run_dedup(
        [rows[:900], rows[900:]],
        {**ALONE, "spans": {}},
        shards=4,
    )
    expected = without_spans(rows, 3, lambda text: Regex(Regex.Options()).starts(text, "und"))
    assert left_by(result) == {uid: text for uid, text in expected.items() if text}
    check_characters(rows, result, "spans")


def check_characters(rows, result, name):
    before = {row.uid: len(row.text) for row in rows}
    after = {row.uid: row for row in result.documents()}
    changed = {uid for uid, row in after.items() if len(row.text) != before[uid]}
    counts = result.counts

    assert len(changed) > 100
    assert counts["edited"] == len(changed)
    assert counts["edits"] == {name: sum(before[uid] - len(after[uid].text) for uid in changed)}
    assert counts["characters_out"] == sum(len(row.text) for row in after.values())

    for uid, row in after.items():
        assert row.n_chars == len(row.text)
        assert bool(row.flags & 16) == (uid in changed)


def test_copies_are_gone_before_lines_are_counted_and_lines_before_spans(run_dedup):
    menu = "Home | Shop | About us"
    text = "One first. Two more words. Three it is. Four at last."
    rows = [
        document(n, f"{menu}\n{text}" if n < 2 else f"{menu}\n{text} More {'abc'[n - 2]} here.")
        for n in range(5)
    ]
    result = run_dedup(
        [rows],
        {
            "exact": {},
            "near": None,
            "lines": {},
            "spans": {},
        },
    )
    kept = {row.uid: row.text for row in result.documents()}
    originals = {row.uid: row.text for row in rows}
    first, *others = sorted(kept)

    assert len(kept) == 4
    assert kept[first] == originals[first].removeprefix(f"{menu}\n")
    assert all(
        kept[uid] == originals[uid].removeprefix(f"{menu}\n{text} ")
        for uid in others
        if "More" in kept[uid]
    )
    assert result.counts["rejected"]["exact_duplicate"] == 1


def test_pairs_are_neither_counted_nor_changed(run_dedup):
    rows = [document(n, "the same line", target_text=f"dieselbe {n}") for n in range(3)]
    result = run_dedup([rows], {**ALONE, "lines": {}})
    assert result.counts["documents_out"] == 3
    assert result.counts["pieces"]["lines"]["pairs"] == 3
