"""Rows of ids as readable text: signs and roles of positions, and the parts of rows of two
texts."""

import numpy as np
import pytest

from clozeline.columns import Role
from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.corrupt.preview.row_view import TokenRenderer, row_parts
from clozeline.pipeline.rows import RowBatch, ShardRow
from clozeline.report.views import Span, visible
from tests.pipeline.corruption_cases import vocabulary
from tests.pipeline.pair_cases import unmasked, window
from tests.shard_sets import roles_of


class Bytes:
    """A tokenizer whose ids from 200 on are the bytes of a text."""

    vocabulary = vocabulary(1000)

    def decode_part(self, ids):
        return bytes(max(0, token - 200) for token in ids).decode("utf-8", "replace")

    def piece(self, token):
        return f"<0x{token - 200:02X}>"


PIECES = TokenRenderer(Bytes(), 12)
WORDS = Bytes.vocabulary
ONE = [200, 201, 202]
TWO = [203, 204]
OTHER = [300, 301]


def ids_of(text):
    return np.array([200 + byte for byte in text.encode()])


def styled(passage):
    return [(text, role) for text, role, _ in passage.spans if role]


def test_signs_for_what_cannot_be_seen():
    assert visible("a\tb\n\x1b[1m\u200b") == "a⇥\tb⏎\n<U+001B>[1m<U+200B>"
    assert PIECES.label(200 + ord("\n"), "unchanged").text == "⏎", "a label stays on one line"
    assert PIECES.label(200 + ord(" "), "unchanged") == Span("␣", "unchanged")


def test_a_character_of_several_tokens_is_shown_unless_a_role_parts_it():
    ids = ids_of("a鲸b")

    assert PIECES.passage("text", ids).text == "a鲸b"

    parted = PIECES.passage("text", ids, {1: "masked"})

    assert styled(parted) == [("\ufffd", "masked")]
    assert (parted.text[0], parted.text[-1]) == ("a", "b")
    assert PIECES.piece(int(ids[1])) == "<0xE9>"


def test_roles_and_signs_are_those_of_their_positions():
    ids = np.array(
        [
            WORDS.specials["cls"],
            WORDS.sentinels[0],
            *ids_of("bcd"),
        ]
    )
    shown = PIECES.passage(
        "row",
        ids,
        {2: "unchanged", 3: "unchanged"},
        {2: "|", 3: "‖"},
    )

    assert shown.title == "row (5 tokens)"
    assert styled(shown) == [
        ("<U+0000>", "special"),
        ("<U+0000>", "sentinel"),
        ("|", "marker"),
        ("b", "unchanged"),
        ("‖", "marker"),
        ("c", "unchanged"),
    ]


# Rows of two texts
# --------------------------------------------------------------------------------------------------


def shown(row, title):
    """The passage of a row whose title begins so."""
    parts = row_parts(
        TokenRenderer(WORDS, 100),
        row,
        roles_of(row.columns) | {"sentence_starts": Role("start", "ids")},
    )

    found = next(part for part in parts if part.title.startswith(title))
    return found.text.strip()


def spaced(ids):
    return " ".join(str(int(token)) for token in ids)


def examples(name):
    rows = window([ONE, TWO], WORDS, 20, partner=OTHER, target=OTHER)
    return build_objective(name, WORDS).corrupt(
        rows,
        np.arange(20, dtype=np.uint16),
        1,
    )[0]


@pytest.mark.parametrize(
    "name", ["next_sentence_prediction", "sentence_order_prediction", "translation_lm"]
)
def test_segments_are_parted(name):
    for row in examples(name):
        second = int(row["segment_starts"][1])
        original = unmasked(row)
        assert (
            shown(row, "original text")
            == f"‖A {spaced(original[:second])} ‖B {spaced(original[second:])}"
        )


def test_labels_say_what_happened_to_their_tokens():
    lists = {
        "input_ids": [WORDS.specials["mask"], 201, 300],
        "label_positions": [0, 1, 2],
        "label_ids": ONE,
    }

    row = ShardRow({}, {name: np.array(values) for name, values in lists.items()})
    lines = row_parts(TokenRenderer(WORDS, 100), row, roles_of(row.columns))[-1].rows

    assert [line[-1] for line in lines] == ["masked", "unchanged", "replaced"]


def test_both_texts_are_shown_with_the_signs_of_their_own_parts():
    rows = window([ONE, TWO], WORDS, partner=OTHER, target=OTHER)
    names = ("ids", "sentence_starts", "partner_ids", "target_ids", "target_language")
    sample = RowBatch(rows.fixed, {name: rows.columns[name] for name in names}).row(0)

    assert shown(sample, "ids") == f"|{spaced(ONE)} |{spaced(TWO)}"
    assert shown(sample, "partner_ids") == shown(sample, "target_ids") == spaced(OTHER)

    compared = examples("sentence_comparison").row(0)
    task = examples("text_to_text").row(0)

    assert (shown(compared, "input_ids ("), shown(compared, "input_ids_b (")) == (
        spaced([1, *ONE, 2]),
        spaced([1, *TWO, 2]),
    )
    assert (shown(task, "input_ids"), shown(task, "target_ids")) == (
        spaced([*ONE, *TWO, 5]),
        spaced([*OTHER, 5]),
    )

    lists = {
        "input_ids": [200, 201, 202],
        "target_ids": [203, 204],
        "document_starts": [0, 2],
        "target_document_starts": [0, 1],
    }

    parted = ShardRow({}, {name: np.array(values) for name, values in lists.items()})

    assert (shown(parted, "input_ids"), shown(parted, "target_ids")) == ("▌200 201 ▌202", "203 204")
