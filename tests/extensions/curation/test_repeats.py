"""Pieces of single texts: what is left of documents without some of them."""

import pytest

from clozeline.extensions.curation.repeats import LinePieces, SpanPieces
from clozeline.pipeline.text.sentences.regex import Regex
from tests.extensions.curation.repeated_texts import documents, without_lines, without_spans
from tests.pipeline.dedup.dedup_documents import document

ALONE = {"exact": None, "near": None}


@pytest.mark.parametrize(
    ("name", "options", "rule"),
    [
        ("lines", {}, (1, False, 1, False)),
        ("lines", {"keep": "first", "max_documents": 2}, (2, True, 1, False)),
        (
            "lines",
            {"min_letters": 16, "within": "source", "max_documents": 3},
            (3, False, 16, True),
        ),
        ("spans", {}, (3, lambda text: Regex(Regex.Options()).starts(text, "und"))),
    ],
)
def test_pieces_that_repeat_are_removed(run_dedup, name, options, rule):
    rows = documents(len(options), 2000)
    result = run_dedup([rows[:700], [], rows[700:]], {**ALONE, name: options}, shards=3)
    expected = (without_lines if name == "lines" else without_spans)(rows, *rule)
    after = {row.uid: row for row in result.documents()}
    rejected = result.rejections()
    before = {row.uid: len(row.text) for row in rows}
    changed = {uid for uid, row in after.items() if len(row.text) != before[uid]}
    cut = sum(before[uid] - len(after[uid].text) for uid in changed)

    assert {uid: row.text for uid, row in after.items()} == {
        uid: text for uid, text in expected.items() if text
    }
    assert rejected.keys() == expected.keys() - after.keys()
    assert {row.reason for row in rejected.values()} <= {f"repeated_{name}"}
    assert len(changed) > 100
    assert (result.counts["edited"], result.counts["edits"]) == (len(changed), {name: cut})
    assert result.counts["characters_out"] == sum(len(row.text) for row in after.values())
    assert all(row.n_chars == len(row.text) for row in after.values())
    assert {uid for uid, row in after.items() if row.flags & 16} == changed


def test_copies_are_gone_before_lines_are_counted_and_lines_before_spans(run_dedup):
    menu = "Home | Shop | About us\n"
    text = "One first. Two more words. Three it is. Four at last."
    rows = [
        document(n, f"{menu}{text}{end}") for n, end in enumerate(["", "", " A.", " B.", " C."])
    ]
    result = run_dedup([rows], {"exact": {}, "near": None, "lines": {}, "spans": {}})
    first, *others = sorted(result.documents(), key=lambda row: row.uid)
    originals = {row.uid: row.text.removeprefix(menu) for row in rows}

    assert len(others) == 3
    assert first.text == originals[first.uid]
    for row in others:
        assert row.text in (originals[row.uid], originals[row.uid].removeprefix(text).strip())
    assert result.counts["rejected"]["exact_duplicate"] == 1


def test_pairs_are_neither_counted_nor_changed(run_dedup):
    rows = [document(n, "the same line", target_text=f"dieselbe {n}") for n in range(3)]
    counts = run_dedup([rows], {**ALONE, "lines": {}}).counts
    assert (counts["documents_out"], counts["pieces"]["lines"]["pairs"]) == (3, 3)


@pytest.mark.parametrize("kind", [LinePieces, SpanPieces])
@pytest.mark.parametrize("numbers", [True, False])
def test_pieces_with_other_numbers_are_others_unless_a_key_says_so(kind, numbers):
    pieces = kind(1, False, "all", 1, numbers)
    first, second = (
        next(pieces.digests(f"The bill of {year} came to 31 crowns. It was paid.", "en"))[1]
        for year in (1901, 1902)
    )
    assert (first == second) == (not numbers)
