"""Tokenizers of each kind of word marks, and their words by the text alone."""

import re
from itertools import pairwise

import numpy as np
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

SPECIALS = ["<pad>", "<unk>", "<s>", "</s>", "<cls>", "<sep>", "<mask>"]
TEXTS = [
    "The quick brown fox jumps over the lazy dog near the river bank, and the old miller watches "
    "it.",
    "Seven wizards brew strange purple potions; nobody knows whether unbelievable stories like "
    "these are true.",
    "A kitten chases the ball through the garden while its mother sleeps under a tree.",
] * 8
UNK = {"unk_token": "<unk>"}
ROLES = {
    "specials": dict(zip(("pad", "unk", "bos", "eos", "cls", "sep", "mask"), SPECIALS, strict=True))
}


def by_space(text):
    """Words between white space, with their punctuation marks."""
    return text.split()


def by_marks(text):
    """Words and punctuation marks, as a pre-tokenizer that splits them sees words."""
    return re.findall(r"\w+|[^\w\s]+", text)


def _json(model, trainer, cutter, normalizer=None, decoder=None):
    def write(folder):
        library = Tokenizer(model())
        library.pre_tokenizer = cutter()
        if normalizer:
            library.normalizer = normalizer
        library.train_from_iterator(TEXTS, trainer())
        if decoder:
            library.decoder = decoder
        folder.mkdir(parents=True, exist_ok=True)
        library.save(str(folder / "tokenizer.json"))
        return folder / "tokenizer.json"

    return write


def _bpe(**options):
    return lambda: trainers.BpeTrainer(
        vocab_size=190, special_tokens=SPECIALS, show_progress=False, **options
    )


def _clip():
    words = pre_tokenizers.Split(Regex(r"\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"), "removed", invert=True)
    return pre_tokenizers.Sequence(
        [words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )


def _letters():
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return trainers.BpeTrainer(
        vocab_size=420, special_tokens=SPECIALS, show_progress=False, initial_alphabet=alphabet
    )


_SUFFIX = {"end_of_word_suffix": "</w>"}
_PREFIX = {"continuing_subword_prefix": "##"}
KINDS = {
    "suffix": (
        _json(
            lambda: models.BPE(**UNK, **_SUFFIX),
            _bpe(**_SUFFIX),
            pre_tokenizers.BertPreTokenizer,
            normalizers.BertNormalizer(lowercase=False),
            decoders.BPEDecoder("</w>"),
        ),
        by_marks,
    ),
    "suffix_of_bytes": (
        _json(
            lambda: models.BPE(**UNK, **_SUFFIX), _bpe(**_SUFFIX), _clip, None, decoders.ByteLevel()
        ),
        by_marks,
    ),
    "prefix": (
        _json(lambda: models.BPE(**UNK, **_PREFIX), _bpe(**_PREFIX), pre_tokenizers.Whitespace),
        by_marks,
    ),
    "metaspace": (
        _json(
            lambda: models.BPE(**UNK), _bpe(), pre_tokenizers.Metaspace, None, decoders.Metaspace()
        ),
        by_space,
    ),
    "bytes": (
        _json(
            lambda: models.BPE(**UNK),
            _letters,
            lambda: pre_tokenizers.ByteLevel(add_prefix_space=False),
            None,
            decoders.ByteLevel(),
        ),
        by_space,
    ),
    "words": (
        _json(
            lambda: models.WordLevel(**UNK),
            lambda: trainers.WordLevelTrainer(
                vocab_size=190, special_tokens=SPECIALS, show_progress=False
            ),
            pre_tokenizers.WhitespaceSplit,
        ),
        by_space,
    ),
}
"""Kinds with marks: the file, and the words of a text."""
UNMARKED = {
    "pieces": _json(lambda: models.BPE(**UNK), _bpe(), pre_tokenizers.Whitespace),
    "first_only": _json(
        lambda: models.BPE(**UNK),
        _bpe(),
        lambda: pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace("▁", "first")]
        ),
    ),
}


def words_of(starts, opens, text):
    """The text from the first token of each word to that of the next."""
    opens = np.array(opens)
    opens[0] = True
    firsts = [
        *np.asarray(starts)[np.flatnonzero(opens)].tolist(),
        len(text),
    ]
    return [text[first:last].strip() for first, last in pairwise(firsts)]
