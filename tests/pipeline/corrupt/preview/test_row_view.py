"""Ids as readable text."""

import numpy as np

from clozeline.pipeline.corrupt.preview.row_view import Pieces, visible
from tests.pipeline.corruption_cases import vocabulary


class Bytes:
    """A tokenizer whose ids from 200 on are the bytes of a text."""

    vocabulary = vocabulary(1000)

    def decode_part(self, ids):
        return bytes(max(0, token - 200) for token in ids).decode("utf-8", "replace")

    def piece(self, token):
        return f"<0x{token - 200:02X}>"


PIECES = Pieces(Bytes(), 12)


def ids_of(text):
    return np.array([200 + byte for byte in text.encode()])


def styled(text):
    return [(text.plain[span.start : span.end], span.style) for span in text.spans]


def test_signs_for_what_cannot_be_seen():
    assert visible("a\tb\n\x1b[1m\u200b") == "a⇥\tb⏎\n<U+001B>[1m<U+200B>"


def test_a_character_of_several_tokens_is_shown_unless_a_role_parts_it():
    ids = ids_of("a鲸b")
    assert PIECES.passage("text", ids).text.plain == "a鲸b"
    parted = PIECES.passage("text", ids, {1: "masked"}).text
    assert styled(parted) == [("\ufffd", "masked")]
    assert (parted.plain[0], parted.plain[-1]) == ("a", "b")
    assert PIECES.piece(int(ids[1])) == "<0xE9>"


def test_roles_and_signs_are_those_of_their_positions():
    special = [Bytes.vocabulary.specials["cls"], Bytes.vocabulary.sentinels[0]]
    ids = np.array([*special, *ids_of("bcd")])
    shown = PIECES.passage("row", ids, {2: "kept", 3: "kept"}, {2: "|", 3: "‖"})
    assert shown.title == "row (5 tokens)"
    assert styled(shown.text) == [
        ("<U+0000>", "special"), ("<U+0000>", "sentinel"), ("|", "marker"), ("b", "kept"), ("‖", "marker"),
        ("c", "kept"),
    ]  # fmt: skip


def test_long_rows_are_cut_and_ids_are_numbers_without_a_tokenizer():
    shown = Pieces(Bytes.vocabulary, 3).passage("ids", np.array([700, 701, 702, 703, 704])).text.plain
    assert shown == "700 701 702  … 2 more tokens"


def test_a_label_stays_on_one_line():
    assert PIECES.label(200 + ord("\n"), "kept").plain == "⏎"
    assert styled(PIECES.label(200 + ord(" "), "kept")) == [("␣", "kept")]
