"""Byte-level BPE gives the ids and offsets of its library.

GPT-2's words one by one, with a cache.
"""

import json
import random
from functools import lru_cache

import pytest
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from clozeline.errors import IntegrityError
from clozeline.pipeline.tokenize.tokenizers._pieces import ENCODING_CUT as LIMIT
from clozeline.pipeline.tokenize.tokenizers._published import PublishedMetadata
from clozeline.pipeline.tokenize.tokenizers.byte_bpe import ByteBpe
from clozeline.pipeline.tokenize.tokenizers.tokenizer_json import TokenizerJson

SPACES = (
    "\t\n\x0b\x0c\r "
    "\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2007\u200a\u200b\u2028\u2029\u202f\u205f\u3000\ufeff"
)
MIXED = "elstdvm''.,12A_é中½“\u0301 "
FRAGMENTS = (
    "the cat mat Straße привет 中文 日本語 한국어 e ë don't 's 'S 'll `` '' 123 12345 ( ) , . … — "
    "“x” / _ < x1 ﬁ ½ İ ſ नमस्ते عربي שָׁלוֹם 😀 👩\u200d👩\u200d👧 ﷺ ¨ ‗ ゛ ▁ Ġ ## 각ᆨ <t> <s>"
).split()
FRAGMENTS += [
    " ",
    "  ",
    "    ",
    "\n",
    "\n\n",
    "\r\n",
    "\r",
    "\t",
    " \n ",
    "\n    ",
    "\u3000",
    "\xa0",
    "\u2003",
    "z" * 99,
]
FRAGMENTS += [
    "\u0301",
    "\u0308",
    "\u200d",
    "\u200b",
    "\u0600",
    "\ufe70",
    "\x00",
    "\x0b",
    "\x85",
    "\x1c",
]
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def byte_level(splitter=None, normalizer=None, added=()):
    model = Tokenizer(models.BPE())
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=splitter is None)
    split = (
        pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(splitter), "isolated"), level])
        if splitter
        else level
    )

    model.normalizer = normalizer
    model.pre_tokenizer = split
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    # pieces of what stands next to each other show where words end
    corpus = ["".join(random.Random(number).choices(FRAGMENTS, k=8)) for number in range(3000)]
    trainer = trainers.BpeTrainer(vocab_size=3000, initial_alphabet=alphabet, show_progress=False)
    model.train_from_iterator(corpus, trainer)
    model.add_tokens(list(added))
    return model


KINDS = {
    "gpt2": byte_level,
    # those must not be cut into GPT-2's words
    "neox": lambda: byte_level(None, normalizers.NFC()),
    "llama3": lambda: byte_level(LLAMA3),
    "spaced": lambda: byte_level(LLAMA3, None, [AddedToken("t m", normalized=False)]),
    "stripping": lambda: byte_level(None, None, [AddedToken("cat", rstrip=True, lstrip=True)]),
}
PARTS = st.sampled_from(FRAGMENTS) | st.sampled_from([*SPACES, *MIXED]) | st.text(max_size=3)
TEXTS = st.lists(PARTS, max_size=14).map("".join)


@lru_cache
def published(name):
    library = KINDS[name]()
    return TokenizerJson(json.loads(library.to_str()), PublishedMetadata()), library


@pytest.mark.parametrize("before", ["", "é low. ", "12"])
def test_a_word_that_is_longer_than_is_encoded_at_once_is_cut_from_its_beginning(before):
    ours, library = published("gpt2")
    word = "the" * (LIMIT // 3 + 5)  # the cut falls inside of a `the`
    parts = [before, word[:LIMIT], word[LIMIT:], " lower"]
    if before.endswith(" "):
        parts = [
            before[:-1],
            " " + word[: LIMIT - 1],
            word[LIMIT - 1 :],
            " lower",
        ]
    wanted = [
        token for part in parts for token in library.encode(part, add_special_tokens=False).ids
    ]

    assert ours.encode([before + word + " lower"])[0].ids.tolist() == wanted
    assert (
        before.endswith(" ")
        or wanted != library.encode(before + word + " lower", add_special_tokens=False).ids
    )


def test_a_file_with_a_gap_in_its_ids_is_named(tmp_path):
    ByteBpe.train(["low lower"], ByteBpe.Options(size=420), tmp_path)
    plain = json.loads((tmp_path / "tokenizer.json").read_text())
    name, last = max(plain["model"]["vocab"].items(), key=lambda item: item[1])
    plain["model"]["vocab"][name] = last + 1
    (tmp_path / "tokenizer.json").write_text(json.dumps(plain))

    with pytest.raises(
        IntegrityError,
        match=r"tokenizer\.json: .*expected the ids 0 .. \d+ without holes.*; copy it",
    ):
        ByteBpe.load(tmp_path)


@pytest.mark.parametrize(
    ("digits", "longest"), [("runs", "12345"), ("three", "123"), ("single", "1")]
)
def test_no_piece_joins_more_digits_than_the_option_allows(digits, longest, tmp_path):
    text = "year 12345 and 12345 or x12345"
    tokenizer = ByteBpe.train([text] * 50, ByteBpe.Options(size=500, digits=digits), tmp_path)
    ids = tokenizer.encode([text])[0].ids.tolist()
    pieces = [tokenizer.decode([number]) for number in ids]

    assert "".join(pieces) == text
    assert max((piece.strip(" x") for piece in pieces if piece[-1].isdigit()), key=len) == longest
