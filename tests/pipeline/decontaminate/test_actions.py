"""What becomes of a document that holds an item: dropped, masked or labeled."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
import xxhash

from clozeline.pipeline.decontaminate.actions import Action
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.kernels.ngram_index import Item, Matcher, build_index
from clozeline.pipeline.text.normal_form import normalize
from clozeline.pipeline.text.text_statistics import TextStatistics
from tests.pipeline.decontaminate.contaminated_texts import document, prose, words_of

ITEMS = ["Seven gray herons left the frozen lake at dawn for the open sea near Bergen", "one two three four five"]
FAR = "Far from it all, a river ran under stones. " * 12


def applied(
    name: str, document: Document, *, matched: bool = True, items: Sequence[str] = ITEMS
) -> tuple[Document | None, Action]:
    """The document after an action, for all entries that it holds."""
    index = build_index(((row, Item(row, f"q{row}", (text,))) for row, text in enumerate(items)), 13)
    found = sorted({entry for _, _, entry in Matcher(index).find([document.text, document.target_text or ""])})
    assert bool(found) == matched
    action = Action(name, index, np.zeros(len(index), dtype=bool), ["birds", "numbers"], 1, {})  # type: ignore[arg-type]
    return action.apply(document, found), action


def test_other_documents_stay_as_they_are() -> None:
    clean = document(0, FAR)
    for name in ("drop", "mask", "label"):
        result, action = applied(name, clean, matched=False)
        assert result == clean
        assert action.counts["documents_out"] == 1
        assert action.counts["characters_removed"] == {}


def test_a_dropped_document_names_the_first_item() -> None:
    result, action = applied("drop", document(0, f"{FAR}One, two, three, four, five. {ITEMS[0]}"))
    assert result is None
    (row,) = action.rejections
    assert row.detail == "birds q0: seven gray herons left the frozen lake at dawn for the open sea"
    assert action.counts["rejected"] == {"contaminated": 1}


def test_a_label_names_the_items_and_changes_nothing_else() -> None:
    before = document(0, f"{ITEMS[1]} {ITEMS[0]}", extra={"title": "x"})
    result, action = applied("label", before)
    assert result == before.replace(extra={"title": "x", "contamination": ["birds q0", "numbers q1"]})
    assert (action.counts["labeled"], action.counts["characters_removed"]) == (1, {})


def test_a_mask_removes_the_run_and_two_hundred_characters_around_it() -> None:
    start, end = FAR, " é " + FAR[::-1]
    before = document(0, f"{start}{ITEMS[0].upper()}{end}", flags=2)
    result, action = applied("mask", before)
    assert result is not None
    kept = normalize(f"{start[:-200].strip()}\n\n{end[200:].strip()}")
    assert result.text == kept
    assert result.flags == 2 | 16
    assert (result.n_chars, result.n_words) == (len(kept), TextStatistics(kept).words)
    assert result.content_hash == xxhash.xxh3_128_digest(kept.encode())
    assert action.counts["characters_removed"] == {"mask": len(before.text) - len(kept)} == action.counts["edits"]
    assert [sample["uid"] for sample in action.edits["mask"]] == [before.uid.hex()]


def test_a_run_near_an_end_is_removed_up_to_it() -> None:
    assert applied("mask", document(0, f"Nearby. {ITEMS[0]}. {FAR}"))[0].text == normalize(FAR[198:])  # type: ignore[union-attr]
    assert applied("mask", document(0, f"{FAR} {ITEMS[0]}. Nearby."))[0].text == normalize(FAR[:-199])  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "held",
    [
        document(0, f"short {ITEMS[0]} short"),  # nothing would be left
        document(0, f"{FAR}{ITEMS[1]}. " * 11 + FAR),  # eleven spans
        document(0, f"{FAR}{ITEMS[1]}. {FAR}", target_text=FAR),  # the other side would be no translation
        document(0, f"{FAR}", target_text=ITEMS[0]),
        document(0, f"one two{' ' * 196}{FAR[:4]}{ITEMS[0]}{' ' * 200}three four five"),  # the rest is an item again
    ],
)
def test_what_cannot_be_masked_is_dropped(held: Document) -> None:
    result, action = applied("mask", held)
    assert result is None
    assert action.counts["rejected"] == {"contaminated": 1}
    assert action.counts["masked"] == 0


def test_ten_spans_are_masked_and_near_ones_are_one_span() -> None:
    result, _ = applied("mask", document(0, f"{FAR}{ITEMS[1]}. " * 10 + FAR))
    assert result is not None
    assert "five" not in words_of(result.text)
    near = " and so on ".join([ITEMS[1]] * 30)
    result, _ = applied("mask", document(0, f"{FAR}{near} {FAR}"))
    assert result is not None
    assert result.text == normalize(f"{FAR[:-200].strip()}\n\n{FAR[199:]}")


def test_an_item_inside_of_another_does_not_end_its_span() -> None:
    inner = " ".join(ITEMS[0].split()[4:9])
    held = document(0, f"{FAR}{' '.join(ITEMS[0].split()[:13])}. {FAR}")
    assert applied("mask", held, items=[*ITEMS, inner])[0] == applied("mask", held)[0]


def test_no_item_is_left_wherever_it_was() -> None:
    draw = random.Random(1)
    for _ in range(100):
        parts = [prose(draw, draw.randrange(120)), draw.choice(ITEMS), prose(draw, draw.randrange(120))]
        result, action = applied("mask", document(0, normalize(" ".join(parts * draw.randrange(1, 4)))))
        assert (result is None) == bool(action.rejections)
        if result is not None:
            applied("mask", result, matched=False)
