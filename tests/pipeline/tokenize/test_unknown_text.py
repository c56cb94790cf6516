"""Unknown text of every kind of tokenizer, against slow references: sets of characters, greedy
spelling, decoding."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library
from tokenizers import models, normalizers, pre_tokenizers

from clozeline.errors import share_text
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.pipeline.tokenize.tokenizers import list_trainable, load_tokenizer
from clozeline.pipeline.tokenize.tokenizers._pieces import UnknownReason
from clozeline.pipeline.tokenize.unknown_text import UnknownShares, UnknownText
from tests.pipeline.tokenize.published.published_folders import library
from tests.pipeline.tokenize.tokenizers.test_tokenizer import trained

KNOWN = "abcde"
TEXTS = [
    "abc cab dea",
    "",
    "   ",
    "中中中",
    "ab中c 語 🙂🙂 {ab}",
    "a" * 300 + " b",
    "жa" * 60,
    "e\u0301 E",
    f"{'ab' * 101} 中",
    "a\nb 中\n語",
    "ab中" * 40,
    "…a ﬁ½ ㍿b…",
]
LOSSY = ["bpe", "wordpiece", "word"]


def corpus():
    draw = random.Random(5)
    return [
        " ".join("".join(draw.choices(KNOWN, k=draw.randrange(1, 5))) for _ in range(30))
        for _ in range(40)
    ]


def published(name, folder):
    """Models as others publish them, in files of the library."""
    letters = ["[UNK]", *KNOWN, *(f"##{letter}" for letter in KNOWN)]
    ids = {piece: number for number, piece in enumerate(letters)}
    named = {"unk_token": "[UNK]"}
    lower = {"normalizer": normalizers.BertNormalizer(lowercase=True)}
    scores = [("[UNK]", 0.0), *((letter, -2.0) for letter in "\u2581" + KNOWN)]
    words = {"[UNK]": 0, "abc": 1, "a": 2, "b": 3}
    kind, parts = {
        "wordpiece": (models.WordPiece(ids, max_input_chars_per_word=100, **named), lower),
        "wordlevel": (models.WordLevel(words, **named), {}),
        "unigram": (
            models.Unigram(scores, 0, False),
            {"pre_tokenizer": pre_tokenizers.Metaspace()},
        ),
        "fused": (models.BPE(ids, [], fuse_unk=True, **named), {}),
        # … is three unknown tokens of one character
        "nfkc": (models.BPE(ids, [], **named), {"normalizer": normalizers.NFKC()}),
        "silent": (models.BPE(dict(zip(KNOWN, range(5), strict=True)), []), lower),
    }[name]
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **(named if name != "silent" else {}),
    }
    parts = {"pre_tokenizer": pre_tokenizers.Whitespace(), **parts}
    library(folder, kind, specials=(), config=config, **parts)
    tokenizer = import_tokenizer(folder, folder.parent / "imported", add=["pad"])
    return Library.from_file(str(folder / "tokenizer.json")), tokenizer


def count(tokenizer, text):
    unknown = UnknownText(tokenizer)
    unknown.add("xx", text, tokenizer.encode([text])[0])
    return unknown


def slow_count(library, text, unknown):
    """Unknown tokens, and the set of characters that they stand for, as the library tells them."""
    row = library.encode(text, add_special_tokens=False)
    id_of_unknown = library.token_to_id(unknown)
    spans = [
        span for token, span in zip(row.ids, row.offsets, strict=True) if token == id_of_unknown
    ]
    return len(spans), len({place for start, end in spans for place in range(start, end)})


@pytest.mark.parametrize("name", list_trainable())
def test_what_we_train(name, tmp_path):
    tokenizer = trained(name, tmp_path / "own", corpus())
    theirs = Library.from_file(str(tmp_path / "own" / "tokenizer.json")) if name in LOSSY else None

    for text in TEXTS:
        counts = count(tokenizer, text).by_language["xx"]
        expected = slow_count(theirs, text, "<unk>") if theirs else (0, 0)
        assert (counts["unknown_tokens"], counts["unknown_characters"]) == expected, text
        assert counts["characters"] == len(text)
        if not theirs:
            assert tokenizer.decode(tokenizer.encode([text])[0].ids) == text


@pytest.mark.parametrize("name", ["character", "unigram", "sentencepiece_bpe"])
def test_what_we_train_without_bytes(name, tmp_path):
    """Each letter is known or not; the library that is exported gives the same ids."""
    trained(name, tmp_path / "own", corpus(), bytes=False, size=170)
    tokenizer = load_tokenizer(tmp_path / "own")
    # SentencePiece always has the newline
    known = f"{KNOWN} " if name == "character" else f"{KNOWN} \n"

    assert not tokenizer.vocabulary.byte_piece

    exported = tokenizer.to_tokenizers()
    unknown = tokenizer.vocabulary.specials["unk"]

    for text in [*TEXTS, "a\u2581b", "\u2581"]:
        (row,) = tokenizer.encode([text])
        counts = count(tokenizer, text).by_language["xx"]

        assert counts["unknown_characters"] == sum(letter not in known for letter in text), text
        assert counts["unknown_tokens"] == (row.ids == unknown).sum()

        covered = "".join(
            text[start:end]
            for start, end in zip(row.starts.tolist(), row.ends.tolist(), strict=True)
        )

        assert covered == text, "every character belongs to one token"

        if "\u2581" not in text:
            assert exported.encode(text, add_special_tokens=False).ids == row.ids.tolist()

    assert tokenizer.decode(tokenizer.encode(["abc cab dea"])[0].ids) == "abc cab dea"
    assert tokenizer.loss.startswith("characters")


@pytest.mark.parametrize("name", ["wordpiece", "wordlevel", "unigram", "fused", "nfkc", "silent"])
def test_what_others_publish(name, tmp_path):
    theirs, tokenizer = published(name, tmp_path / "published")

    for text in TEXTS:
        counts = count(tokenizer, text).by_language["xx"]
        # it writes nothing for a letter that it does not know; blanks and accents are no loss
        if name == "silent":
            known = sum(letter in KNOWN for letter in text.lower())
            expected = 0, len("".join(text.replace("\u0301", "").split())) - known
        else:
            expected = slow_count(theirs, text, "[UNK]")

        assert (counts["unknown_tokens"], counts["unknown_characters"]) == expected, text


def spells(word, pieces):
    """Whether greedy longest-match-first spells a word."""
    start = 0
    while start < len(word):
        mark = "##" if start else ""
        ends = [end for end in range(len(word), start, -1) if mark + word[start:end] in pieces]
        if not ends:
            return False
        start = ends[0]

    return True


@pytest.fixture(scope="module")
def wordpiece(tmp_path_factory):
    return trained("wordpiece", tmp_path_factory.mktemp("wordpiece"), corpus())


def test_a_letter_that_stands_only_at_the_begin_of_words_is_named_as_the_piece_that_lacks(tmp_path):
    """`te` `x` `##a` `##s` spell "te xas", and not "texas", which needs `##x`.

    Nothing else is lacking.
    """
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "t", "te", "x", "##a", "##s"]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces) + "\n")
    tokenizer = import_tokenizer(tmp_path / "vocab.txt", tmp_path / "imported")

    assert count(tokenizer, "Te xas").by_language["xx"]["unknown_tokens"] == 0

    unknown = count(tokenizer, "Texas жx").counts()

    assert unknown["unknown_text"]["xx"]["unknown_characters"] == 5 + 2
    assert unknown["unknown_examples"] == {UnknownReason.LETTERS.value: {"##x": 2, "ж": 1}}


LENGTHS = st.integers(195, 205)
WORDS = st.one_of(
    st.text(KNOWN, min_size=1, max_size=9),
    st.text(KNOWN + "ж", min_size=1, max_size=5),
    LENGTHS.map(lambda length: "ж" * length),
    LENGTHS.map(lambda length: ("ab" * length)[:length]),
)


@given(st.lists(WORDS, max_size=8))
def test_reasons_of_a_wordpiece(wordpiece, words):
    pieces = {wordpiece.piece(token) for token in range(wordpiece.vocabulary.size)}
    long = sum(len(word) for word in words if len(word) > 200)
    letters = sum(len(word) for word in words if len(word) <= 200 and not spells(word, pieces))
    unknown = count(wordpiece, " ".join(words)).counts()

    assert unknown["unknown_reasons"].get(UnknownReason.LONG_WORD.value, 0) == long
    assert unknown["unknown_reasons"].get(UnknownReason.LETTERS.value, 0) == letters
    assert unknown["unknown_text"]["xx"]["unknown_characters"] == long + letters
    assert set(unknown["unknown_examples"].get(UnknownReason.LETTERS.value, ())) <= {"ж", "##ж"}


def test_sums_of_languages_and_what_is_told():
    counts = {
        "unknown_text": {
            "zh": {"characters": 100, "tokens": 60, "unknown_characters": 90, "unknown_tokens": 50},
            "en": {
                "characters": 9900,
                "tokens": 2000,
                "unknown_characters": 0,
                "unknown_tokens": 0,
            },
        },
        "unknown_reasons": {
            "letters that the vocabulary lacks": 80,
            "words too long for the tokenizer": 10,
        },
        "unknown_examples": {"letters that the vocabulary lacks": {"中": 3, "文": 7}},
    }

    shares = UnknownShares.of(counts)

    assert shares.summary() == "unknown: 50 tokens for 90 characters (0.9 %): zh 90.0 %"
    assert shares.is_noticed(), "90 % of a language"

    counts["unknown_text"]["zh"]["unknown_characters"] = 1

    assert not UnknownShares.of(counts).is_noticed(), "1 % is not above 1 %"
    assert UnknownShares.of({}).summary() == ""
    shown = [share_text(share) for share in (0.0, 0.5, 0.00012, 1.0)]
    assert shown == ["0.0 %", "50.0 %", "0.012 %", "100.0 %"]
