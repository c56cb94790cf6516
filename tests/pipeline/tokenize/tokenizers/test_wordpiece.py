"""WordPiece that is trained here against a slow learner and a slow search of the longest pieces."""

import json
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tokenizers import normalizers, pre_tokenizers

from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.pipeline.tokenize.tokenizers._pieces import special_pieces
from clozeline.pipeline.tokenize.tokenizers.wordpiece import WordPiece
from tests.pipeline.tokenize.published.published_files import wordpiece
from tests.pipeline.tokenize.tokenizers.slow_learner import slow_learner, slow_letters

NORMALIZERS = {
    lower_case: normalizers.BertNormalizer(lowercase=lower_case) for lower_case in (True, False)
}


def words_of(text, lower_case):
    """The words of BERT's steps before WordPiece, as the library makes them."""
    normal = NORMALIZERS[lower_case].normalize_str(text)
    return [word for word, _ in pre_tokenizers.BertPreTokenizer().pre_tokenize_str(normal)]


def slow_ids(text, pieces, unknown, lower_case):
    """Of each word the longest piece, then the longest of the rest.

    A word that is not spelled so is unknown.
    """
    ids = []

    for word in words_of(text, lower_case):
        cut = []
        rest = word
        mark = ""

        while rest:
            ends = [end for end in range(len(rest), 0, -1) if mark + rest[:end] in pieces]
            if not ends:
                cut = []
                break

            cut.append(pieces[mark + rest[: ends[0]]])
            rest = rest[ends[0] :]
            mark = "##"

        ids += cut or [unknown]

    return ids


def loaded(path, lower_case=True, **specials):
    """A vocabulary of BERT's with a class that says whether text is lowered."""
    config = {"tokenizer_class": "BertTokenizer", "do_lower_case": lower_case}
    (path.parent / "tokenizer_config.json").write_text(json.dumps(config))
    return import_tokenizer(path.parent, path.parent / "out", specials=specials)


def pieces_of(path):
    return {name: number for number, name in enumerate(path.read_text().splitlines())}


def test_a_word_that_serves_as_a_special_token_is_spelled(tmp_path):
    path = wordpiece(tmp_path)
    pieces = {name: token for name, token in pieces_of(path).items() if name != "cat"}
    tokenizer = loaded(path, eos="cat")
    ids = tokenizer.encode(["the cat cats"])[0].ids.tolist()

    assert ids == slow_ids("the cat cats", pieces, pieces["[UNK]"], lower_case=True)
    assert tokenizer.vocabulary.specials["eos"] not in ids


@given(
    texts=st.lists(st.text(st.sampled_from("aaabbcÀ中#. \n"), max_size=30), max_size=6),
    room=st.integers(1, 14),
    fewest=st.integers(1, 3),
    lower_case=st.booleans(),
)
def test_trained_pieces_are_those_of_the_slow_learner(texts, room, fewest, lower_case):
    reserved = special_pieces(0)
    found = [word for text in texts for word in words_of(text, lower_case)]
    words = [
        [
            word[0],
            *(f"##{letter}" for letter in word[1:]),
        ]
        for word in found
    ]
    # a letter inside of words has a piece without ## too
    met = [
        [symbol for piece in word for symbol in dict.fromkeys([piece.removeprefix("##"), piece])]
        for word in words
    ]
    letters = slow_letters(met, room)
    words = [word for word, symbols in zip(words, met, strict=True) if set(symbols) <= set(letters)]
    merges = slow_learner(words, room - len(letters), fewest, join_pieces, letters=letters)
    wanted = list(
        dict.fromkeys(
            [
                *reserved,
                *letters,
                *(join_pieces(*pair) for pair in merges),
            ]
        )
    )
    options = WordPiece.Options(
        size=len(reserved) + room, reserved=0, min_frequency=fewest, lower_case=lower_case
    )
    with tempfile.TemporaryDirectory() as folder:
        WordPiece.train(texts, options, Path(folder))
        model = WordPiece.load(Path(folder))

    assert [model.piece(token) for token in range(model.vocabulary.size)] == wanted

    pieces = {piece: number for number, piece in enumerate(wanted) if number >= len(reserved)}
    slow = [slow_ids(text, pieces, wanted.index("<unk>"), lower_case) for text in texts]

    assert [encoding.ids.tolist() for encoding in model.encode(texts)] == slow


def join_pieces(left, right):
    return left + right[2:]


def test_decode_writes_a_space_before_each_word(tmp_path):
    tokenizer = loaded(wordpiece(tmp_path))
    ids = tokenizer.encode(["Unaffable cat,\nrunning"])[0].ids
    assert tokenizer.decode(ids) == "unaffable cat, running"
    assert tokenizer.decode_part(ids) == " unaffable cat , running"
    assert tokenizer.decode([6, ids[0]]) == "[MASK] una"
