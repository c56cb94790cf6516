"""Score classes and numbers that a model generates as text, with the task's own metrics."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.tools.runs.evaluation.metrics import METRICS, Scored, degenerate, score


def has_written_answers(facts: TaskFacts) -> bool:
    """Return whether the texts of a task name classes or numbers, such as those of `glue` with `as_text`."""
    return facts.head == "lm" and any(name in METRICS for name in facts.metrics)


def most_frequent_text(texts: Sequence[str]) -> str:
    """Return the most frequent text, the alphabetically first one among ties."""
    counts = Counter(texts)
    return min(counts, key=lambda text: (-counts[text], text))


def score_written_answers(
    facts: TaskFacts, train_targets: Sequence[str], golds: Sequence[str], texts: Sequence[str]
) -> Scored:
    """Return the scores of generated texts, and how many name no class or number.

    Such a text is wrong, as in T5's code: of two classes it counts as the other one, of more as none of them, and as a
    number it is the lowest. The baseline is the most frequent target of the training set.
    """
    answers, majority = np.array([_parse(facts, gold) for gold in golds]), most_frequent_text(train_targets)
    predicted, baseline = _parse_all(facts, texts, answers), _parse_all(facts, [majority] * len(golds), answers)
    return Scored(
        len(golds), score(facts, answers, predicted), {"majority": score(facts, answers, baseline)},
        not facts.words and degenerate(answers, predicted),
        unparsable=sum(_parse(facts, text) is None for text in texts),
    )  # fmt: skip


def _parse(facts: TaskFacts, text: str) -> float | None:
    text = text.strip()
    if facts.words:
        return facts.words.index(text) if text in facts.words else None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and facts.low <= number <= facts.high else None


def _parse_all(facts: TaskFacts, texts: Sequence[str], answers: NDArray[Any]) -> NDArray[Any]:
    """Return what texts name; for those that name nothing, a wrong class or the lowest number."""
    wrong = (1 - answers if len(facts.words) == 2 else np.full_like(answers, -1)) if facts.words else None
    numbers = [
        number if (number := _parse(facts, text)) is not None else facts.low if wrong is None else wrong[row]
        for row, text in enumerate(texts)
    ]
    return np.array(numbers, answers.dtype)
