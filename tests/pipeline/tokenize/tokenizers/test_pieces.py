"""Parts that all tokenizers share, against plain loops over bytes and characters."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.errors import IntegrityError
from clozeline.pipeline.tokenize.tokenizers._pieces import (
    TRAINING_CUT,
    PieceTable,
    fingerprint,
    special_pieces,
    split_text,
    training_texts,
)

FEW = settings(max_examples=50)


@FEW
@given(st.text(st.sampled_from("ab \n\té"), max_size=60), st.integers(2, 12))
def test_slices_join_to_the_text_and_fall_before_white_space_where_they_can(text, limit):
    slices = split_text(text, limit)

    assert "".join(slices) == text
    assert all(len(one) <= limit for one in slices)

    for one, after in pairwise(slices):
        assert after
        if any(
            one[place].isspace() and one[:place].strip() for place in range(limit // 2, len(one))
        ):
            assert (one[-1].isspace(), after[0].isspace()) == (False, True)


def test_no_document_decides_the_pieces_alone():
    found = list(training_texts(["x" * (3 << 20), "short"]))
    assert found[-1] == "short"
    assert sum(map(len, found)) == (1 << 20) + 5
    assert max(map(len, found)) == TRAINING_CUT


def table(words):
    """All bytes, then words, after the reserved pieces."""
    names = [*special_pieces(2), *(f"<{byte}>" for byte in range(256)), *words]
    raw = [bytes([byte]) for byte in range(256)] + [word.encode() for word in words]
    return PieceTable([None] * (len(names) - len(raw)) + raw, names)


@pytest.mark.parametrize(("tokens", "held"), [([0, 0], 2), ([], 0), ([0, 0, 0, 0], 4)])
def test_lost_or_added_text_is_noticed(tokens, held):
    """Special ids stand for no text."""
    pieces = table(["ab"])
    first = len(special_pieces(2))
    good = np.array([first + 97])
    bad = np.array([first + 97 + token for token in tokens], np.int64)

    with pytest.raises(
        IntegrityError,
        match=rf"text 1 of a batch has 3 bytes, but its tokens have {held}; .*'abc'",
    ):
        pieces.encodings(["a", "abc", "a"], [good, bad, good])

    with pytest.raises(IntegrityError, match="lost or added text"):
        pieces.encodings(["<pad>"], [np.array([0])])

    assert pieces.decode([3, len(pieces.names) - 1]) == "<mask>ab"


def test_pieces_of_some_bytes_of_a_character_open_a_word_where_most_letters_do():
    starts = {
        "中": 2,
        "ก": 2,
        "अ": 2,
        "\U00020000": 2,
        "\U00020001": 3,
        "\U0001f600": 2,
        "é": 1,
        "한": 2,
    }

    bytes_ = [letter.encode()[:size] for letter, size in starts.items()]
    pieces = PieceTable(
        [*bytes_, b"\x80\xad", b"\xb8\xad a"], [str(number) for number in range(len(starts) + 2)]
    )

    assert pieces.word_starts().tolist() == [
        True,
        True,
        False,
        True,
        True,
        False,
        False,
        False,
        False,
        False,
    ]


def test_word_ends_and_fingerprints():
    words = {
        "\n": True,
        " \n": True,
        "\n ": False,
        " ": False,
        "x": False,
        "x\t": True,
        "\u3000": True,
        "é": False,
    }

    pieces = PieceTable(
        [
            *map(str.encode, words),
            b"\xa0",
            b"\n\xc2",
            None,
        ],
        [*words, "a", "b", "c"],
    )

    assert pieces.word_ends().tolist() == [*words.values(), False, False, False]
    assert (
        fingerprint({"a": 1, "b": [2]})
        == fingerprint({"b": [2], "a": 1})
        != fingerprint({"a": 1, "b": [3]})
    )
