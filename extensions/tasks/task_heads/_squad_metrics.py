"""Compute SQuAD's F1 and exact match, and search the threshold of "no answer"."""

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Final

_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)
_ARTICLES: Final = re.compile(r"\b(a|an|the)\b")


def normalize(text: str) -> str:
    """Normalize a text like SQuAD: lower case, no punctuation, articles or extra white space.

    Example:
        >>> normalize("The well-known U.S. cat")
        'wellknown us cat'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, gold: str) -> float:
    """Return 1 if two answers are equal after normalization, else 0."""
    return float(normalize(answer) == normalize(gold))


def token_f1(answer: str, gold: str, *, unanswerable: bool) -> float:
    """Return the F1 of the words that two normalized answers share, counting repetitions.

    `unanswerable` applies the rule of SQuAD 2.0, by which two empty answers are equal; in 1.1 they
    share no word.
    """
    words = normalize(answer).split()
    gold_words = normalize(gold).split()
    if unanswerable and not (words and gold_words):
        return float(words == gold_words)
    shared = sum((Counter(words) & Counter(gold_words)).values())
    return 2 * shared / (len(words) + len(gold_words)) if shared else 0.0


def question_scores(
    answer: str, golds: Sequence[str], *, unanswerable: bool
) -> tuple[float, float]:
    """Return exact match and F1 of a question, each for the best accepted answer.

    If no answer is accepted, "" is correct.
    """
    accepted = [gold for gold in golds if normalize(gold)] if unanswerable else list(golds)
    accepted = accepted or [""]
    exact = max(exact_match(answer, gold) for gold in accepted)
    return exact, max(token_f1(answer, gold, unanswerable=unanswerable) for gold in accepted)


def best_threshold(
    differences: Sequence[float], answered: Sequence[float], unanswered: Sequence[float]
) -> tuple[float, float]:
    """Return the threshold with the highest mean score, and that mean, as the official script does.

    A question is answered if its difference is at most the threshold. Of equal means, the lowest
    threshold is chosen; if no question should be answered, it is 1 below all differences.

    Args:
        differences: score of no answer minus score of the best span, for each question.
        answered: score of each question if it is answered by its best span, for example F1.
        unanswered: score of each question if it is not answered: 1 if it has no answer, else 0.
    """
    total = best = sum(unanswered)
    threshold = min(differences, default=0.0) - 1.0
    order = sorted(range(len(differences)), key=differences.__getitem__)
    for question, following in zip(order, [*order[1:], None], strict=True):
        total += answered[question] - unanswered[question]
        # equal differences change together
        is_last = following is None or differences[following] > differences[question]
        if is_last and total > best:
            best = total
            threshold = differences[question]
    return threshold, best / max(1, len(differences))
