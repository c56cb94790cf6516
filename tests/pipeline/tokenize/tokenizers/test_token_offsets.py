"""Offsets are those that the library computes, also where they follow from the lengths of pieces."""

import json
import random

import pytest
from hypothesis import example, given, settings
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from clozeline.pipeline.registries import TOKENIZERS
from clozeline.pipeline.tokenize.tokenizers._published import PublishedMetadata
from clozeline.pipeline.tokenize.tokenizers.tokenizer_json import TokenizerJson
from tests.pipeline.tokenize.tokenizers.test_byte_bpe import (
    FRAGMENTS,
    KINDS,
    LLAMA3,
    TEXTS,
    byte_level,
)

PROSE = (
    "The café's 2 cats, 中国 and ‘dogs’: (unaffable)!\r\n\tDon't  stop_here… ½ of it\u3000{x} {{y}}"
)
TRAINED = {
    "wordpiece": ("wordpiece", {}),
    "wordpiece, lower case": ("wordpiece", {"lower_case": True}),
    "bpe": ("bpe", {}),
    "word": ("word", {}),
    "character": ("character", {}),
}
UNKNOWN = "[?]"


def unigram(normalizer):
    """T5's and PEGASUS' kind: words with a mark at their starts, runs of unknown letters."""
    pieces = [
        UNKNOWN,
        "▁",
        *"abcdehinostuy,.'()12⁄",
        "▁the",
        "▁cat",
        "▁c",
        "at",
        "ng",
        "é",
        "...",
        "国",
    ]
    model = Tokenizer(models.Unigram([(piece, -len(pieces)) for piece in pieces], 0, False))
    model.normalizer = normalizer
    model.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace("▁", "always", True)]
    )
    return model


def albert():
    """Signs of a sentencepiece model that are added tokens, and quotes that become one sign."""
    model = unigram(normalizers.Sequence([normalizers.Replace("``", '"'), normalizers.Lowercase()]))
    model.add_tokens([AddedToken(sign, normalized=False) for sign in "(.-"])
    return model


def prefixed():
    model = byte_level()
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    return model


def llama(scheme):
    """Llama's kind: spaces as marks, merges over complete texts, bytes of unknown letters."""
    names = [
        *(f"<0x{byte:02X}>" for byte in range(256)),
        "▁",
        *"thecaméws'",
        "th",
        "the",
        "▁the",
        "▁▁",
    ]
    merges = [("t", "h"), ("th", "e"), ("▁", "the"), ("▁", "▁")]
    ids = {name: number for number, name in enumerate(names)}
    model = Tokenizer(models.BPE(ids, merges, byte_fallback=True, fuse_unk=True))
    if scheme is None:
        steps = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        model.normalizer = normalizers.Sequence(steps)
    else:
        model.pre_tokenizer = pre_tokenizers.Metaspace("▁", scheme, scheme == "always")
    model.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback()])
    return model


PUBLISHED = {
    "unigram": lambda: unigram(None),
    "unigram, NFKC": lambda: unigram(
        normalizers.Sequence(
            [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
        )
    ),
    "unigram, no accents": lambda: unigram(
        normalizers.Sequence(
            [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]
        )
    ),
    "unigram, added signs": albert,
    "a space in front": prefixed,
    "llama": lambda: llama("first"),
    "llama, split": lambda: llama("always"),
    "llama, no space in front": lambda: llama("never"),
    "llama, old files": lambda: llama(None),
    "NFC": lambda: byte_level(LLAMA3, normalizers.NFC()),
    **KINDS,
}


@pytest.fixture(scope="module", params=[*TRAINED, *PUBLISHED])
def tokenizer(request, tmp_path_factory):
    if request.param in PUBLISHED:
        spec = json.loads(PUBLISHED[request.param]().to_str())
        return TokenizerJson(spec, PublishedMetadata())
    name, options = TRAINED[request.param]
    kind = TOKENIZERS.load_class(name)
    draw = random.Random(1)
    corpus = [PROSE, *(" ".join(draw.choices(FRAGMENTS, k=8)) for _ in range(800))]
    return kind.train(corpus, kind.Options(size=900, **options), tmp_path_factory.mktemp("model"))


def library_offsets(tokenizer, text):
    row = tokenizer._model.encode(text, add_special_tokens=False)
    return row.ids, row.offsets


@settings(max_examples=200)
@example(["", PROSE, "", "▁", " a", "\u0301", "the\u0301 cat", "x\x1cy\x85", "\n", "_a_ _"])
@example(["##ing # ing", "각ᆨ \u1100\u1161", "e\u0323\u0301", "x" * 300, "~~ ♥a♥", "Å İx ﬁ"])
@example(["the cat.\n/mat's\u0301 x(the\u0639 x\r\ncat", "\u0600 the  cat\u0301 \u0301mat ``''"])
@given(texts=TEXTS.flatmap(lambda text: TEXTS.map(lambda other: [text, other, text + other])))
def test_offsets_are_those_of_the_library(tokenizer, texts):
    for text, found in zip(texts, tokenizer.encode(texts), strict=True):
        ids, offsets = library_offsets(tokenizer, text)
        assert found.ids.tolist() == ids
        assert list(zip(found.starts.tolist(), found.ends.tolist(), strict=True)) == offsets


def test_a_mark_of_spaces_is_a_character_where_no_step_writes_it(tmp_path):
    kind = TOKENIZERS.load_class("character")
    trained = kind.train(["a▁b"] * 3, kind.Options(size=600), tmp_path)
    (found,) = trained.encode(["a ▁b"])
    assert trained.decode(found.ids) == "a ▁b"
    assert found.starts.tolist() == [0, 1, 2, 3]
