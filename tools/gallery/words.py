"""Sentences whose tokens are words: a vocabulary that a reader can follow, and sample rows of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.groupings import Context, build_grouping
from pipeline.objectives import Objective
from pipeline.rows import Ragged, Rows
from pipeline.seeding import keyed_hash
from pipeline.vocabulary import MODES, SENTINELS, SPECIALS, Vocabulary

__all__ = ["Text", "Words", "sample_rows_of"]

_SHOWN = {"pad": "[PAD]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]", "bos": "<s>", "eos": "</s>", "unk": "<unk>"}


@dataclass(frozen=True, slots=True)
class Text:
    """A document of words between blanks.

    Args:
        sentences: its sentences.
        target: its other side (a translation, an answer); empty: none.
        target_language: code of the other side's language.
    """

    sentences: tuple[str, ...]
    target: str = ""
    target_language: int = 1


class Words:
    """A vocabulary of specials, sentinels, modes and the words of some texts; `##` marks a word's later pieces."""

    def __init__(self, texts: Iterable[str]) -> None:
        sentinels = [f"<extra_{number}>" for number in range(SENTINELS)]
        specials = [_SHOWN[name] for name in SPECIALS]
        words = sorted({word for text in texts for word in text.split()})
        self._shown = [*specials, *sentinels, *(f"[{mode}]" for mode in MODES), *words]
        self._ids = {word: token for token, word in enumerate(self._shown)}
        first = len(self._shown) - len(words)
        size = len(self._shown)
        self.vocabulary = Vocabulary(
            size=size,
            specials={name: token for token, name in enumerate(SPECIALS)},
            sentinels=tuple(range(len(specials), len(specials) + SENTINELS)),
            modes={mode: len(specials) + SENTINELS + place for place, mode in enumerate(MODES)},
            special=np.arange(size) < first,
            word_start=np.array([not word.startswith("##") for word in self._shown]),
            fingerprint="0" * 64,
        )

    def ids(self, text: str) -> list[int]:
        """Tokens of words and specials between blanks."""
        return [self._ids[word] for word in text.split()]

    def words(self, ids: Iterable[int]) -> list[str]:
        """How tokens are shown."""
        return [self._shown[token] for token in ids]

    def documents(self, texts: Sequence[Text]) -> Rows:
        """Token documents, as groupings read them."""
        starts = [np.cumsum([0, *(len(one.split()) for one in text.sentences)])[:-1] for text in texts]
        uids = np.zeros((len(texts), 16), np.uint8)
        for row, text in enumerate(texts):
            uids[row, :8] = np.frombuffer(keyed_hash(*text.sentences).to_bytes(8, "little"), np.uint8)
        other = [[text.target_language] if text.target else [] for text in texts]
        fixed: dict[str, Any] = {
            "document_uid": uids,
            "language": np.zeros(len(texts), np.uint8),
            "source_group": np.zeros(len(texts), np.uint16),
            "copy": np.zeros(len(texts), np.uint8),
        }
        columns = {
            "token_ids": Ragged.from_lists([self.ids(" ".join(text.sentences)) for text in texts], np.uint16),
            "sentence_starts": Ragged.from_lists(starts, np.uint32),
            "target_ids": Ragged.from_lists([self.ids(text.target) for text in texts], np.uint16),
            "target_language": Ragged.from_lists(other, np.uint8),
        }
        return Rows(fixed, columns)


def sample_rows_of(objective: Objective, words: Words, texts: Sequence[Text]) -> Rows:
    """Sample rows of the texts in their order, by the grouping that the objective reads."""
    spec = objective.grouping
    context = Context(spec.label, source_groups=("gallery",))
    return build_grouping(spec, words.vocabulary).group(words.documents(texts), objective.least, context).rows
