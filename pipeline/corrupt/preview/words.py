"""Tokenize short texts, by a tokenizer or by their words, and group them into sample rows."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from clozeline.errors import ConfigurationError
from clozeline.pipeline.corrupt.objectives import Objective
from clozeline.pipeline.group.groupings import Context, build_grouping
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.tokenize.encode.tokenize_documents import sentence_starts
from clozeline.pipeline.tokenize.tokenizers import Tokenizer
from clozeline.pipeline.vocabulary import MODES, SENTINELS, SPECIALS, Vocabulary
from clozeline.seeding import hash64

_SPECIAL_PIECES: Final = {
    "pad": "[PAD]",
    "cls": "[CLS]",
    "sep": "[SEP]",
    "mask": "[MASK]",
    "bos": "<s>",
    "eos": "</s>",
    "unk": "<unk>",
}
_SPACE_TO_DROP: Final = re.compile(r" (?:##(?=.)|(?=[.,;:!?)\]}’'»”…。，！？]$))")


@dataclass(frozen=True, slots=True)
class PreviewText:
    """A document as sentences of words that spaces separate."""

    sentences: tuple[str, ...]
    target: str = ""
    """the other side (a translation, an answer); empty: no other side"""

    @property
    def uid(self) -> NDArray[np.uint8]:
        """Return the uid of the document, shape [16]."""
        return np.frombuffer(hash64(*self.sentences).to_bytes(16, "little"), np.uint8)


class TokenizerCodec:
    """Encodes texts with a tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.decoder = tokenizer
        self.vocabulary = tokenizer.vocabulary

    def document(self, sentences: Sequence[str]) -> tuple[list[int], list[int]]:
        """Return the tokens of consecutive sentences, and the first token of each."""
        text = "".join(sentences)
        encoding = self.decoder.encode([text])[0]
        if not len(encoding.ids):
            return [], []

        # the first visible character of each sentence
        ends = np.cumsum([len(sentence) for sentence in sentences])[:-1].tolist()
        visible = [
            end + len(after) - len(after.lstrip())
            for end, after in zip(ends, sentences[1:], strict=True)
        ]
        starts = sentence_starts(text, [0, *visible], encoding.starts, encoding.ends)
        return encoding.ids.tolist(), starts.tolist()

    def word_id(self, word: str) -> int:
        """Return the id of a word, at the start of a text or after a space."""
        found = [self.decoder.encode([text])[0].ids.tolist() for text in (f" {word}", word)]
        ids = next((ids for ids in found if len(ids) == 1), None)
        if ids is None:
            pieces = " ".join(self.words(found[0]))
            raise ConfigurationError(
                f"choose: '{word}' is not one token of this tokenizer ({pieces}); choose a word "
                "that is one"
            )
        return int(ids[0])

    def words(self, ids: Iterable[int]) -> list[str]:
        """Return the pieces as the tokenizer's model writes them: `Ġthe`, `▁the`."""
        return [self.decoder.piece(int(token)) for token in ids]


class WordCodec:
    """Encodes texts whose words are the tokens; `##` marks the later pieces of a word.

    The vocabulary consists of special tokens, sentinels, mode tokens and the words of some texts.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        # all tokens, in the order of their ids
        sentinels = [f"<extra_{number}>" for number in range(SENTINELS)]
        specials = [_SPECIAL_PIECES[name] for name in SPECIALS]
        modes = [f"[{mode}]" for mode in MODES]
        words = sorted({word for text in texts for word in text.split()})
        self._tokens = [*specials, *sentinels, *modes, *words]
        self._ids = {word: token for token, word in enumerate(self._tokens)}

        size = len(self._tokens)
        self.vocabulary = Vocabulary(
            size=size,
            specials={name: token for token, name in enumerate(SPECIALS)},
            sentinels=tuple(range(len(specials), len(specials) + SENTINELS)),
            modes={
                mode: len(specials) + SENTINELS + position for position, mode in enumerate(MODES)
            },
            special=np.arange(size) < size - len(words),
            word_start=np.array([not word.startswith("##") for word in self._tokens]),
            fingerprint="0" * 64,
        )

        self.decoder = self

    def word_id(self, word: str) -> int:
        """Return the id of a word."""
        if word not in self._ids:
            raise ConfigurationError(f"choose: '{word}' is not one word; choose a single word")
        return self._ids[word]

    def ids(self, text: str) -> list[int]:
        """Return the tokens of a text whose words and special tokens are separated by spaces."""
        return [self._ids[word] for word in text.split()]

    def document(self, sentences: Sequence[str]) -> tuple[list[int], list[int]]:
        """Return the tokens of consecutive sentences, and the first token of each."""
        ids: list[int] = []
        starts: list[int] = []
        for sentence in sentences:
            starts.append(len(ids))
            ids += self.ids(sentence)
        return ids, starts

    def words(self, ids: Iterable[int]) -> list[str]:
        return [self._tokens[token] for token in ids]

    def decode_part(self, ids: Iterable[int]) -> str:
        """Return the words with spaces, but none before later pieces and closing punctuation."""
        return "".join(_SPACE_TO_DROP.sub("", f" {word}") for word in self.words(ids))

    def piece(self, token: int) -> str:
        """Return one word as `words` does."""
        return self._tokens[token]


TextCodec: TypeAlias = TokenizerCodec | WordCodec
"""Converts texts to ids, and ids to readable pieces."""


def sample_rows_of(
    objective: Objective, codec: TextCodec, texts: Sequence[PreviewText], seed: int = 1
) -> RowBatch:
    """Return the sample rows of some texts, in order, by the grouping of the objective."""
    spec = objective.grouping
    context = Context(spec.label, seed, source_groups=("gallery",))
    return (
        build_grouping(spec, codec.vocabulary)
        .group(token_documents(codec, texts), objective.minimum, context)
        .rows
    )


def token_documents(codec: TextCodec, texts: Sequence[PreviewText]) -> RowBatch:
    """Return some texts as token documents, which groupings read."""
    documents = [codec.document(text.sentences) for text in texts]
    targets = [codec.document([text.target])[0] if text.target else [] for text in texts]

    fixed: dict[str, Any] = {
        "document_uid": np.stack([text.uid for text in texts]),
        "language": np.zeros(len(texts), np.uint8),
        "source_group": np.zeros(len(texts), np.uint16),
        "copy": np.zeros(len(texts), np.uint8),
    }

    dtype = codec.vocabulary.id_dtype
    columns = {
        "token_ids": Ragged.from_lists([ids for ids, _ in documents], dtype),
        "sentence_starts": Ragged.from_lists([starts for _, starts in documents], np.uint32),
        "target_ids": Ragged.from_lists(targets, dtype),
        "target_language": Ragged.from_lists([[1] * bool(text.target) for text in texts], np.uint8),
    }

    return RowBatch(fixed, columns)
