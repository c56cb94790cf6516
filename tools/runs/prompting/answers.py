"""Labels of rows by a model: prompts that fit its window, scores of every label's words, and the best label."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
from torch import Tensor

from clozeline.tools.runs.prompting.candidates import Candidate, Scorer
from clozeline.tools.runs.prompting.rows import PromptRow
from clozeline.tools.runs.prompting.template import Prompt, Template, prompt_of

Normalise: TypeAlias = Literal["sum", "mean", "per_byte", "pmi"]
"""sum of a word's log-probabilities; by its tokens; by its bytes of UTF-8; less the sum after a prompt whose fields
have no content (arXiv 2102.09690)"""
_TOGETHER: Final = 256
"""rows whose words are scored together"""


@dataclass(frozen=True)
class Answered:
    """A row and the labels' scores; of a row that does not fit the window there are none."""

    row: PromptRow
    scores: tuple[float, ...]
    """by label, in the order of the template; empty: the row is longer than the window by itself"""
    demonstrations: tuple[int, ...]
    """uids of those that it was read with, the first of the prompt first"""
    dropped: int
    """demonstrations that had no room, the oldest ones"""

    @property
    def best(self) -> int:
        """Number of the label with the highest score; of equal ones the lowest."""
        return int(np.argmax(self.scores))

    @property
    def tied(self) -> bool:
        """Another label has the same score."""
        return self.scores.count(max(self.scores)) > 1


def answer_rows(
    rows: Sequence[PromptRow],
    template: Template,
    demonstrations: Callable[[PromptRow], list[PromptRow]],
    scorer: Scorer,
    window: int,
    normalise: Normalise = "sum",
) -> list[Answered]:
    """Return the scores of every row, which depend on no other row.

    Args:
        rows: to be labelled.
        template: texts and words.
        demonstrations: those of a row, such as `Demonstrations.of`.
        scorer: of words.
        window: tokens that a row may have. The oldest demonstrations are left out until it fits; the row never is cut.
        normalise: of the score of a word.

    Raises:
        ConfigurationError: a word has no token in its prompt.
    """
    found: list[Answered] = []
    empty = dict.fromkeys(template.names, template.null) if normalise == "pmi" else None
    for first in range(0, len(rows), _TOGETHER):
        part = rows[first : first + _TOGETHER]
        asked = [_Asked(row, template, demonstrations(row), scorer, window, empty) for row in part]
        wanted = {one: None for of_row in asked if of_row.fits for one in (*of_row.candidates, *of_row.blank)}
        scores = dict(zip(wanted, scorer.scores([*wanted]), strict=True))
        for of_row in asked:
            values = _label_scores(template, of_row, scores, normalise) if of_row.fits else ()
            uids = tuple(other.uid for other in of_row.shown)
            found.append(Answered(of_row.row, values, uids, of_row.dropped))
    return found


class _Asked:
    """A row with the demonstrations that its prompt has room for, and the words of all labels in it.

    Args:
        row: to be labelled.
        template: texts and words.
        shown: its demonstrations.
        scorer: of words.
        window: tokens of a row.
        empty: fields of a row without content, which is asked with the same demonstrations; None: none is.
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
        self.row, self.shown, self.dropped = row, shown, 0
        while True:
            before = [(one.fields, one.label or "") for one in self.shown]
            self.candidates = _candidates(template, scorer, prompt_of(template, before, row.fields))
            self.blank = [] if empty is None else _candidates(template, scorer, prompt_of(template, before, empty))
            self.fits = max(one.length for one in (*self.candidates, *self.blank)) <= window
            if self.fits or not self.shown:
                return
            self.shown, self.dropped = self.shown[1:], self.dropped + 1


def _candidates(template: Template, scorer: Scorer, prompt: Prompt) -> list[Candidate]:
    return [scorer.candidate(prompt, word) for words in template.labels.values() for word in words]


def _label_scores(
    template: Template, asked: _Asked, scores: Mapping[Candidate, Tensor], normalise: Normalise
) -> tuple[float, ...]:
    """Return the score of each label, from those of its words."""
    every = [word for words in template.labels.values() for word in words]
    by_word = [float(scores[one].sum()) for one in asked.candidates]
    match normalise:
        case "mean":
            by_word = [total / len(one.places) for total, one in zip(by_word, asked.candidates, strict=True)]
        case "per_byte":
            by_word = [total / len(word.strip().encode()) for total, word in zip(by_word, every, strict=True)]
        case "pmi":
            by_word = [total - float(scores[one].sum()) for total, one in zip(by_word, asked.blank, strict=True)]
    found, at = [], 0
    for words in template.labels.values():
        own = np.array(by_word[at : at + len(words)])
        found.append(float(np.logaddexp.reduce(own) if template.words == "logsumexp" else own.mean()))
        at += len(words)
    return tuple(found)
