"""Score texts by the likelihood a run gives them, for commands of extensions.

Causal scores begin with what precedes a text in training rows; masked scores read
`[CLS] text [SEP]`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from clozeline.errors import ConfigurationError
from clozeline.pipeline.row_form import PartForm
from clozeline.pipeline.shards.manifest import ObjectiveRecord
from clozeline.pipeline.tokenize.tokenizers import Encoding
from clozeline.train.checkpoint.trained_model import TrainedModel

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T", bound=str)
Score: TypeAlias = Literal["causal", "pll", "pll_word", "mntp", "fused"]
"""causal: left-to-right log-likelihood; pll: each token masked alone (arXiv 1910.14659); pll_word:
masked together with the later tokens of its word (within_word_l2r, arXiv 2305.10588); mntp: masked
alone and predicted at the previous position (arXiv 2410.24159); fused: the mean of causal and of
mntp (else pll), for models trained for both"""
WORD: Final = re.compile(r"\w+|[^\w\s]")
"""a run of letters and digits, or one other character"""
_BATCH_TEXTS: Final = 2048
"""texts per batch"""


@dataclass(frozen=True)
class TextScore:
    """Score of a text: the sum of the natural log-probabilities of its tokens."""

    total: float
    tokens: int
    """number of scored tokens: all, except a first token that nothing precedes"""


def list_prepared_scores(objective: ObjectiveRecord, form: PartForm) -> tuple[Score, ...]:
    """Return the types of score that training on rows of an objective, of a form, prepares."""
    if objective.architecture == "decoder":
        return ("causal",) if "lm" in objective.heads else ()
    if objective.architecture != "encoder" or "masked_lm" not in objective.heads:
        return ()
    if form.predicts_next:
        return ("causal",)
    return ("mntp",) if form.predict_from == "previous" else ("pll", "pll_word")


def word_spans(text: str) -> list[tuple[int, int]]:
    """Return start and end of each word in characters.

    A word is a run of letters and digits, or one other character.

    Example:
        >>> word_spans("I play, too")
        [(0, 1), (2, 6), (6, 7), (8, 11)]
    """
    return [match.span() for match in WORD.finditer(text)]


def word_indices(text: str, encoding: Encoding) -> list[int]:
    """Return for each token the index of its word in `word_spans`.

    It is the word of the token's first character that is not blank.
    """
    # index of the word at each character; blanks belong to the next word
    word_at: NDArray[np.int64] = np.full(len(text) + 1, -1)
    for number, (start, end) in enumerate(word_spans(text)):
        word_at[start:end] = number
    for character in range(len(text) - 1, -1, -1):  # blanks belong to what follows
        if word_at[character] < 0:
            word_at[character] = word_at[character + 1]
    numbers: list[int] = word_at[np.minimum(encoding.starts, len(text))].tolist()
    return numbers


class TextScorer:
    """Scores texts with one model.

    Causal scores read the ids `before` each text. Fused scores average the causal score with the
    score `fused_with`.
    """

    def __init__(
        self, trained: TrainedModel, kind: Score, before: Sequence[int], fused_with: Score = "pll"
    ) -> None:
        self._trained = trained
        self._before = before
        self._kinds: tuple[Score, ...] = ("causal", fused_with) if kind == "fused" else (kind,)

    def score(self, texts: Sequence[str]) -> Iterator[TextScore]:
        """Yield the score of each text; it does not depend on the other texts."""
        for start in range(0, len(texts), _BATCH_TEXTS):
            part = texts[start : start + _BATCH_TEXTS]
            encoded = self._trained.tokenizer.encode(part)
            kinds = [self.score_tokens(part, encoded, kind) for kind in self._kinds]
            for scores in zip(*kinds, strict=True):
                yield TextScore(
                    sum(float(tokens.sum()) for tokens in scores) / len(scores), len(scores[-1])
                )

    def score_tokens(
        self, texts: Sequence[str], encoded: Sequence[Encoding], kind: Score
    ) -> list[Tensor]:
        """Return the natural log-probability of each scored token of each text, fp64.

        `encoded` are the tokens of the texts.
        """
        from clozeline.model.scoring.causal import log_likelihoods
        from clozeline.model.scoring.masked import pseudo_log_likelihoods

        if kind == "causal":
            rows = [[*self._before, *encoding.ids.tolist()] for encoding in encoded]
            scores = log_likelihoods(self._trained.model, rows)
            return [tokens[max(0, len(self._before) - 1) :] for tokens in scores]

        cls, sep, mask = self._trained.masked_row_ids(f"score={kind}")
        rows = [[cls, *encoding.ids.tolist(), sep] for encoding in encoded]
        positions = [range(1, len(row) - 1) for row in rows]
        words = None

        if kind == "pll_word":
            words = [
                word_indices(text, encoding) for text, encoding in zip(texts, encoded, strict=True)
            ]

        return pseudo_log_likelihoods(
            self._trained.model, rows, positions, mask, words=words, previous=kind == "mntp"
        )


def ready_scores(objectives: Sequence[ObjectiveRecord]) -> dict[Score, PartForm]:
    """Return the types of score that training prepares, preferred first.

    Each comes with the form of the first rows that prepare it.
    """
    by_kind = {
        name: form
        for objective in reversed(objectives)
        for form in reversed(objective.frame.each)
        for name in list_prepared_scores(objective, form)
    }
    if "causal" in by_kind and _score_to_fuse(by_kind) is not None:
        by_kind["fused"] = by_kind["causal"]
    return {name: by_kind[name] for name in get_args(Score) if name in by_kind}


def _score_to_fuse(ready: Collection[Score]) -> Score | None:
    """Return the score to average with the causal one.

    Models that predict at the previous position use mntp.
    """
    return "mntp" if "mntp" in ready else "pll" if "pll" in ready else None


def choose_prepared(
    trained: TrainedModel, key: str, asked: T | None, ready: Collection[T], nothing: str
) -> T:
    """Return the requested value of a key, by default the first that the training prepared.

    Args:
        trained: the model.
        key: of the command line, for messages.
        asked: its value; None: not given.
        ready: values that the training prepared, preferred first.
        nothing: description of a training that prepares no value, for the message.

    Raises:
        ConfigurationError: the training did not prepare it.
    """
    if not ready:
        labels = ", ".join(dict.fromkeys(objective.label for objective in trained.objectives))
        raise ConfigurationError(f"{trained.folder}: was trained on {labels}, {nothing}")
    chosen = asked or next(iter(ready))
    if chosen not in ready:
        raise ConfigurationError(
            f"{key}={chosen}: the run was not trained for it, and its scores would mean nothing; "
            f"allowed: {', '.join(ready)}"
        )
    return chosen


def choose_score(ready: Collection[Score], trained: TrainedModel, kind: Score | None) -> Score:
    """Return the type of score, by default the first that the training prepared.

    Raises:
        ConfigurationError: the training did not prepare it.
    """
    return choose_prepared(trained, "score", kind, ready, "which prepares no score of texts alone")


def open_scorer(trained: TrainedModel, kind: Score | None) -> tuple[TextScorer, Score]:
    """Return a scorer, and its type: by default the first that the training prepared.

    Raises:
        ConfigurationError: the training did not prepare it.
    """
    ready = ready_scores(trained.objectives)
    chosen = choose_score(ready, trained, kind)
    before = ready[chosen].before_text if chosen in ("causal", "fused") else ()
    return TextScorer(trained, chosen, before, _score_to_fuse(ready) or "pll"), chosen
