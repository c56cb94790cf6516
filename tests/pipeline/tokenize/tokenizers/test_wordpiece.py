"""WordPiece against a slow reading of the algorithm's description, whole text by whole text."""

import json
import tempfile
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.pipeline.tokenize.tokenizers._pieces import special_pieces
from clozeline.pipeline.tokenize.tokenizers.wordpiece import WordPiece
from tests.pipeline.tokenize.published.published_files import NASTY, corpus, wordpiece
from tests.pipeline.tokenize.tokenizers.slow_learner import slow_learner, slow_letters

IDEOGRAPHS = [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
              (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)]  # fmt: skip


def slow_words(text, lower_case):
    """Clean, set ideographs apart, split at white space, lower and strip accents, split at punctuation."""
    clean = ""
    for character in text:
        kind = unicodedata.category(character)
        if character in " \t\n\r" or kind == "Zs":
            clean += " "
        elif character not in "\0\ufffd" and kind not in ("Cc", "Cf", "Co"):
            apart = any(low <= ord(character) <= high for low, high in IDEOGRAPHS)
            clean += f" {character} " if apart else character
    words = []
    for token in clean.split():
        if lower_case:
            letters = unicodedata.normalize("NFD", "".join(map(str.lower, token)))
            token = "".join(letter for letter in letters if unicodedata.category(letter) != "Mn")
        opened = False
        for character in token:
            ascii_mark = 33 <= ord(character) <= 126 and not character.isalnum()
            is_mark = ascii_mark or unicodedata.category(character)[0] == "P"
            if opened and not is_mark:
                words[-1] += character
            else:
                words.append(character)
            opened = not is_mark
    return " ".join(words).split()


def slow_ids(text, pieces, unknown, lower_case):
    ids = []
    for word in slow_words(text, lower_case):
        cut = []
        rest, mark = word, ""
        while rest and len(word) <= 100:
            ends = [end for end in range(len(rest), 0, -1) if mark + rest[:end] in pieces]
            if not ends:
                cut = []
                break
            cut.append(pieces[mark + rest[: ends[0]]])
            rest, mark = rest[ends[0] :], "##"
        ids += cut or [unknown]
    return ids


def loaded(path, lower_case=True, **specials):
    """A vocabulary of BERT's with a class that says whether text is lowered."""
    config = {"tokenizer_class": "BertTokenizer", "do_lower_case": lower_case}
    (path.parent / "tokenizer_config.json").write_text(json.dumps(config))
    return import_tokenizer(path.parent, path.parent / "out", specials=specials)


def pieces_of(path):
    return {name: number for number, name in enumerate(path.read_text(encoding="utf-8").splitlines())}


@pytest.fixture(scope="module", params=[True, False], ids=["lower", "cased"])
def case(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wordpiece")
    path = wordpiece(folder, cased=not request.param)
    tokenizer = loaded(path, request.param)
    pieces = pieces_of(path)
    specials = {tokenizer.piece(token) for token in tokenizer.vocabulary.specials.values()}
    ordinary = {name: number for name, number in pieces.items() if name not in specials}
    return tokenizer, lambda text: slow_ids(text, ordinary, pieces["[UNK]"], request.param)


def test_ids_are_those_of_the_algorithm(case):
    tokenizer, slow = case
    texts = [*NASTY, *corpus(), "Σ\u00adΑ ΑΣ\u0345 ΑΣ\u0301. a\x1cb", "中ΑΣ中Σ", "a" * 200 + "Σ", "ﷺ ẞ ŉ ΐ"]
    assert [encoding.ids.tolist() for encoding in tokenizer.encode(texts)] == [slow(text) for text in texts]
    assert [tokenizer.encode([text])[0].ids.tolist() for text in texts] == [slow(text) for text in texts]


def test_a_word_that_serves_as_a_special_token_is_spelt(tmp_path):
    path = wordpiece(tmp_path)
    pieces = {name: token for name, token in pieces_of(path).items() if name != "cat"}
    tokenizer = loaded(path, eos="cat")
    ids = tokenizer.encode(["the cat cats"])[0].ids.tolist()
    assert ids == slow_ids("the cat cats", pieces, pieces["[UNK]"], lower_case=True)
    assert tokenizer.vocabulary.specials["eos"] not in ids


LETTERS = st.sampled_from("aΣAß#İ中. \n\u0301\u00ad\x1c") | st.characters(codec="utf-8", exclude_categories=["Cn"])


@settings(max_examples=150)
@given(text=st.text(LETTERS, max_size=40))
def test_ids_of_any_text_are_those_of_the_algorithm(case, text):
    tokenizer, slow = case
    assert tokenizer.encode([text])[0].ids.tolist() == slow(text)


@given(
    texts=st.lists(st.text(st.sampled_from("aaabbcÀ中#. \n"), max_size=30), max_size=6),
    room=st.integers(1, 14),
    fewest=st.integers(1, 3),
    lower_case=st.booleans(),
)
def test_trained_pieces_are_those_of_the_slow_learner(texts, room, fewest, lower_case):
    reserved = special_pieces(0)
    found = [word for text in texts for word in slow_words(text, lower_case)]
    words = [[word[0], *(f"##{letter}" for letter in word[1:])] for word in found]
    # a letter inside of words has a piece without ## too
    met = [[symbol for piece in word for symbol in dict.fromkeys([piece.removeprefix("##"), piece])] for word in words]
    letters = slow_letters(met, room)
    words = [word for word, symbols in zip(words, met, strict=True) if set(symbols) <= set(letters)]
    merges = slow_learner(words, room - len(letters), fewest, join_pieces, letters=letters)
    wanted = list(dict.fromkeys([*reserved, *letters, *(join_pieces(*pair) for pair in merges)]))
    options = WordPiece.Options(size=len(reserved) + room, reserved=0, min_frequency=fewest, lower_case=lower_case)
    with tempfile.TemporaryDirectory() as folder:
        WordPiece.train(texts, options, Path(folder))
        model = WordPiece.load(Path(folder))
    assert [model.piece(token) for token in range(model.vocabulary.size)] == wanted
    pieces = {piece: number for number, piece in enumerate(wanted) if number >= len(reserved)}
    slow = [slow_ids(text, pieces, wanted.index("<unk>"), lower_case) for text in texts]
    assert [encoding.ids.tolist() for encoding in model.encode(texts)] == slow


def join_pieces(left, right):
    return left + right[2:]


def test_tokens_begin_at_their_characters(case):
    tokenizer, _ = case
    text = "  The\x0b unaffable\u00ad 中文,\u0301 É naïve."
    encoding = tokenizer.encode([text])[0]
    pieces = [tokenizer.piece(token).removeprefix("##") for token in encoding.ids.tolist()]
    shown = {*zip(pieces, (text[start] for start in encoding.starts.tolist()), strict=True)}
    assert {("una", "u"), ("ffa", "f"), ("ble", "b"), ("中", "中"), ("文", "文"), (",", ","), (".", ".")} <= shown
    assert all(piece[0] == at.lower() or piece in ("[UNK]", "The") or at == "É" for piece, at in shown)


def test_decode_writes_a_space_before_each_word(tmp_path):
    tokenizer = loaded(wordpiece(tmp_path))
    ids = tokenizer.encode(["Unaffable cat,\nrunning"])[0].ids
    assert tokenizer.decode(ids) == "unaffable cat, running"
    assert tokenizer.decode_part(ids) == " unaffable cat , running"
    assert tokenizer.decode([6, ids[0]]) == "[MASK] una"
