"""Templates of task rows: special tokens around one text or a pair, and truncation to the maximum length."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from clozeline.pipeline.tasks.config import FrameName
from clozeline.pipeline.vocabulary import Vocabulary

Architecture: TypeAlias = Literal["encoder", "decoder", "encoder_decoder"]


@dataclass(frozen=True, slots=True)
class FramedRow:
    """The ids of a row with special tokens, where its segments start, and the number of truncated tokens."""

    ids: NDArray[Any]
    segment_starts: tuple[int, ...]
    cut: int


@dataclass(frozen=True)
class Frame:
    """A template: the roles of the special tokens before, between and after the texts."""

    architecture: Architecture
    head: tuple[str, ...]
    between: tuple[str, ...]
    tail: tuple[str, ...]
    segments: bool
    """true if the second text of a pair is a second segment, which starts after `between`"""
    decoder_start: str | None = None
    """first special token of the decoder's input"""

    def length(self, texts: int) -> int:
        """Return the number of special tokens of a row of one or two texts."""
        return len(self.head) + (len(self.between) if texts > 1 else 0) + len(self.tail)

    def check(self, vocabulary: Vocabulary) -> None:
        """Raise ConfigurationError if the vocabulary lacks a special token of the template."""
        start = () if self.decoder_start is None else (self.decoder_start,)
        for roles in (self.head, self.between, self.tail, start):
            self.ids(roles, vocabulary)

    def facts(self, vocabulary: Vocabulary) -> dict[str, Any]:
        """Return the properties of the rows that a manifest records."""
        if self.architecture == "decoder":
            return {"predict_from": "previous"}
        if self.decoder_start is None:
            return {}
        return {"decoder_start": int(self.ids((self.decoder_start,), vocabulary)[0])}

    def row(self, texts: Sequence[NDArray[Any]], vocabulary: Vocabulary, max_length: int) -> FramedRow:
        """Return the row of one text or a pair, truncated to `max_length` tokens."""
        kept = truncate_lengths([len(text) for text in texts], max_length - self.length(len(texts)))
        head, between, tail = (self.ids(roles, vocabulary) for roles in (self.head, self.between, self.tail))
        parts = [head, texts[0][: kept[0]]]
        starts = [0]
        if len(texts) > 1:
            parts.append(between)
            starts.append(sum(map(len, parts)))
            parts.append(texts[1][: kept[1]])
        ids = np.concatenate([*parts, tail]).astype(vocabulary.id_dtype)
        return FramedRow(ids, tuple(starts), sum(map(len, texts)) - sum(kept))

    def ids(self, roles: Sequence[str], vocabulary: Vocabulary) -> NDArray[Any]:
        """Return the ids of special tokens; ConfigurationError if the vocabulary lacks one."""
        ids = [vocabulary.id_of(role, "the frame of task rows (tasks.frame)") for role in roles]
        return np.array(ids, vocabulary.id_dtype)


FRAMES: Final[dict[FrameName, Frame]] = {
    "bert": Frame("encoder", ("cls",), ("sep",), ("sep",), segments=True),
    "roberta": Frame("encoder", ("cls",), ("sep", "sep"), ("sep",), segments=False),
    "t5": Frame("encoder_decoder", (), (), ("eos",), segments=False, decoder_start="pad"),
    "gpt": Frame("decoder", (), (), ("eos",), segments=False),
    "llama": Frame("decoder", ("bos",), (), ("eos",), segments=False),
}
"""bert: `[CLS] a [SEP] b [SEP]` with two segments (arXiv 1810.04805); roberta: `<s> a </s></s> b </s>` (1907.11692);
t5: `a </s>` for source and target, the pad starts the decoder (1910.10683); gpt: `a </s>`; llama: `<s> a </s>`."""


def truncate_lengths(lengths: Sequence[int], room: int) -> list[int]:
    """Return how many tokens of each text fit: tokens are removed one at a time from the end of the longer text.

    The second of two equally long texts is truncated first, as in BERT's code: [7, 4] with room 6 gives [3, 3].
    """
    if len(lengths) == 1 or sum(lengths) <= room:
        return [min(lengths[0], room), *lengths[1:]]
    first, second = lengths
    kept = min(first, max(room - second, (room + 1) // 2))
    return [kept, room - kept]
