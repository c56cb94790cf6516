"""Label rows with a model.

Prompts fit its window; each label's words are scored, and the best label is taken.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
from torch import Tensor

from clozeline.extensions.evaluation.prompting.scorers import Candidate, Scorer
from clozeline.extensions.evaluation.prompting.template import (
    LabelPrompt,
    PromptRow,
    Template,
    prompt_of,
)

Normalization: TypeAlias = Literal["sum", "mean", "per_byte", "pmi"]
"""score of a word: the sum of its log-probabilities; per token; per UTF-8 byte; or minus the sum
after a prompt with empty fields (arXiv 2102.09690)"""
_ROWS_PER_BATCH: Final = 256
"""rows whose words are scored together"""


@dataclass(frozen=True)
class Answered:
    """A row and its label scores; a row that does not fit the window has none."""

    row: PromptRow
    scores: tuple[float, ...]
    """per label, in template order; empty: the row alone is longer than the window"""
    demonstrations: tuple[int, ...]
    """uids of the demonstrations it was read with, in prompt order"""
    dropped: int
    """number of demonstrations dropped for lack of room, oldest first"""

    @property
    def best(self) -> int:
        """Index of the label with the highest score, the lowest index among ties."""
        return int(np.argmax(self.scores))

    @property
    def probabilities(self) -> tuple[float, ...]:
        """Return the probability of each label, given that one of them is the answer.

        It is the softmax of the scores.

        With score=sum this is p(label | prompt) / sum of p(any label | prompt).
        """
        scores = np.array(self.scores)
        return tuple(np.exp(scores - np.logaddexp.reduce(scores)).tolist()) if self.scores else ()

    @property
    def is_tied(self) -> bool:
        """True if another label has the same score."""
        return self.scores.count(max(self.scores)) > 1


def answer_rows(
    rows: Sequence[PromptRow],
    template: Template,
    demonstrations: Callable[[PromptRow], list[PromptRow]],
    scorer: Scorer,
    window: int,
    normalization: Normalization = "sum",
) -> list[Answered]:
    """Return the scores of every row; none depends on the other rows.

    The oldest demonstrations are dropped until a row fits `window` tokens; the row itself is never
    truncated.
    """
    answered: list[Answered] = []
    empty = dict.fromkeys(template.names, template.null) if normalization == "pmi" else None

    for first in range(0, len(rows), _ROWS_PER_BATCH):
        part = rows[first : first + _ROWS_PER_BATCH]
        asked = [
            _FittedPrompt(row, template, demonstrations(row), scorer, window, empty) for row in part
        ]
        distinct = {
            candidate: None
            for of_row in asked
            if of_row.fits
            for candidate in (*of_row.candidates, *of_row.blank)
        }

        scores = dict(zip(distinct, scorer.scores([*distinct]), strict=True))

        for of_row in asked:
            values = _label_scores(template, of_row, scores, normalization) if of_row.fits else ()
            uids = tuple(other.uid for other in of_row.shown)
            answered.append(Answered(of_row.row, values, uids, of_row.dropped))

    return answered


class _FittedPrompt:
    """A row with the demonstrations that fit its prompt, and the words of all labels in it.

    With `empty` fields, the words are also placed in a prompt without content, with the same
    demonstrations.
    """

    def __init__(
        self,
        row: PromptRow,
        template: Template,
        shown: list[PromptRow],
        scorer: Scorer,
        window: int,
        empty: Mapping[str, str] | None,
    ) -> None:
        self.row = row
        self.shown = shown
        self.dropped = 0

        while True:
            before = [(shown_row.fields, shown_row.label or "") for shown_row in self.shown]
            self.candidates = _candidates(template, scorer, prompt_of(template, before, row.fields))
            self.blank = (
                []
                if empty is None
                else _candidates(template, scorer, prompt_of(template, before, empty))
            )

            self.fits = (
                max(shown_row.length for shown_row in (*self.candidates, *self.blank)) <= window
            )
            if self.fits or not self.shown:
                return
            self.shown = self.shown[1:]
            self.dropped = self.dropped + 1


def _candidates(template: Template, scorer: Scorer, prompt: LabelPrompt) -> list[Candidate]:
    return [scorer.candidate(prompt, word) for words in template.labels.values() for word in words]


def _label_scores(
    template: Template,
    asked: _FittedPrompt,
    scores: Mapping[Candidate, Tensor],
    normalization: Normalization,
) -> tuple[float, ...]:
    every = [word for words in template.labels.values() for word in words]
    by_word = np.array([float(scores[candidate].sum()) for candidate in asked.candidates])
    match normalization:
        case "mean":
            by_word /= [len(candidate.positions) for candidate in asked.candidates]
        case "per_byte":
            by_word /= [len(word.strip().encode()) for word in every]
        case "pmi":
            by_word -= [float(scores[candidate].sum()) for candidate in asked.blank]

    by_label = np.split(by_word, np.cumsum([len(words) for words in template.labels.values()])[:-1])
    return tuple(
        float(
            np.logaddexp.reduce(word_scores)
            if template.words == "logsumexp"
            else word_scores.mean()
        )
        for word_scores in by_label
    )
