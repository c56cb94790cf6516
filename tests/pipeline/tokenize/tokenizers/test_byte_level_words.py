"""Tokenizers give the ids and offsets of their library, GPT-2's words by words too."""

import io
import json
import random
from functools import lru_cache

import pytest
import sentencepiece
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from clozeline.pipeline.tokenize.tokenizers._published import Published
from clozeline.pipeline.tokenize.tokenizers.tokenizer_json import TokenizerJson

TEXT = [
    "the cat, the mat.\n\n    don't(x1) 1234 Straße",
    "привет мир \"中文\" 日本語 한국어 ``e\u0301''",
    "a  b\tc\r\n/d's",
]
FRAGMENTS = [
    "the", "cat", "mat", "Straße", "привет", "中文", "日本語", "한국어", "e", "ë", "don't", "'s", "'S", "'ll", "``",
    "''", "123", "12345", "(", ")", ",", ".", "…", "—", "“x”", "/", "_", "<", "x1", "ﬁ", "½", "İ", "ſ", "नमस्ते", "عربي",
    "שָׁלוֹם", "😀", "👩\u200d👩\u200d👧", "ﷺ", "¨", "‗", "゛", "▁", "Ġ", "##", "각ᆨ", "<t>", "<s>",
]  # fmt: skip
FRAGMENTS += [
    " ", "  ", "    ", "\n", "\n\n", "\r\n", "\r", "\t", " \n ", "\n    ", "\u3000", "\xa0", "\u2003", "z" * 99,
]  # fmt: skip
FRAGMENTS += ["\u0301", "\u0308", "\u200d", "\u200b", "\u0600", "\ufe70", "\x00", "\x0b", "\x85", "\x1c"]
CALLS = settings(max_examples=150, deadline=None, derandomize=True)
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def sequence(*steps):
    return pre_tokenizers.Sequence(list(steps))


def metaspace(scheme, *, split=True):
    return pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)


@lru_cache
def charsmap():
    sink = io.BytesIO()
    lines = iter(["the cat and the mat", *TEXT])
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=lines, model_writer=sink, vocab_size=99, hard_vocab_limit=False, minloglevel=2
    )
    model = sentencepiece_model_pb2.ModelProto.FromString(sink.getvalue())
    return normalizers.Precompiled(model.normalizer_spec.precompiled_charsmap)


def byte_level(splitter=None, normalizer=None, added=()):
    model = Tokenizer(models.BPE())
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=splitter is None)
    split = sequence(pre_tokenizers.Split(Regex(splitter), "isolated"), level) if splitter else level
    model.normalizer, model.pre_tokenizer = normalizer, split
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    # pieces of what stands next to each other show where words end
    corpus = ["".join(random.Random(number).choices(FRAGMENTS, k=8)) for number in range(3000)]
    trainer = trainers.BpeTrainer(vocab_size=3000, initial_alphabet=alphabet, show_progress=False)
    model.train_from_iterator(corpus, trainer)
    model.add_tokens(list(added))
    return model


def unigram(splitter, *steps, added=()):
    pieces = [("<unk>", 0.0), ("▁", -2.0), *((letter, -5.0) for letter in "abcdehimnostx123.,()")]
    pieces += [(word, -4.0) for word in ("▁the", "▁cat", "▁a", "at", "don", "▁(", "12", "▁▁")]
    model = Tokenizer(models.Unigram(pieces, 0, byte_fallback=False))
    model.normalizer, model.pre_tokenizer = normalizers.Sequence(list(steps)), splitter
    model.add_tokens([AddedToken(content, normalized=False) for content in added])
    return model


def words(splitter, normalizer):
    pieces = ["[UNK]", *"abcdehimnostx123.,(", *(f"##{letter}" for letter in "abcdehimnostx123"), "the", "##at"]
    model = Tokenizer(models.WordPiece({piece: token for token, piece in enumerate(pieces)}, unk_token="[UNK]"))
    model.normalizer, model.pre_tokenizer = normalizer, splitter
    return model


ALBERT = (normalizers.Replace("``", '"'), normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase())
WORDS = pre_tokenizers.WhitespaceSplit()
KINDS = {
    "gpt2": byte_level,
    "bert": lambda: words(pre_tokenizers.BertPreTokenizer(), normalizers.BertNormalizer()),
    "split": lambda: words(WORDS, normalizers.NFKC()),
    "neox": lambda: byte_level(None, normalizers.NFC()),
    "llama3": lambda: byte_level(LLAMA3),
    "albert": lambda: unigram(sequence(WORDS, metaspace("always")), *ALBERT, charsmap(), added="(.—"),
    "spaced": lambda: byte_level(LLAMA3, None, [AddedToken("t m", normalized=False)]),
    "stripping": lambda: byte_level(None, None, [AddedToken("cat", rstrip=True, lstrip=True)]),
}


@lru_cache
def pair(name):
    library = KINDS[name]()
    return TokenizerJson(json.loads(library.to_str()), Published()), library


def texts():
    return st.lists(st.sampled_from(FRAGMENTS) | st.sampled_from(" \n") | st.text(max_size=3), max_size=14).map("".join)


@pytest.mark.parametrize("name", KINDS)
def test_ids_and_offsets_are_those_of_the_complete_text(name):
    ours, library = pair(name)

    @CALLS
    @example("the cat.\n/mat's\u0301 x(the\u0639 x\r\ncat")
    @example("\u0600 the  cat\u0301 \u0301mat ``''")
    @given(texts())
    def check(text):
        (found,) = ours.encode([text])
        expected = library.encode(text, add_special_tokens=False)
        assert found.ids.tolist() == expected.ids
        if not {"\x00", "\x0b", "\x85", "\x1c"} & {*text}:  # some normalizers lose track of characters they delete
            assert list(zip(found.starts.tolist(), found.ends.tolist(), strict=True)) == expected.offsets

    check()
