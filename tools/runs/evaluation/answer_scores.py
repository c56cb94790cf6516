"""Scores of answers: SQuAD's F1 and exact match by its rules, beside the sentence that is most like the question."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from torch import Tensor

from clozeline.errors import IntegrityError
from clozeline.model.decoding.answers import Answers, read_answers
from clozeline.pipeline.rows import Rows
from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.pipeline.tasks.task_rows import record_of
from clozeline.pipeline.text.sentences.regex import Regex
from clozeline.tools.runs.evaluation.metrics import Scored
from clozeline.tools.runs.evaluation.predictions import windows_of
from clozeline.tools.runs.evaluation.unit_sums import Units, mean_units, value_of

Window: TypeAlias = tuple[float, int, int, float]
_LONGEST: Final = 30
"""Tokens of an answer at most (arXiv 1810.04805)."""
_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)
_ARTICLES: Final = re.compile(r"\b(a|an|the)\b")


def normalised(text: str) -> str:
    """Return a text as SQuAD compares it: lower case, without ASCII punctuation, articles and spare white space.

    Example:
        >>> normalised("The well-known U.S. cat")
        'wellknown us cat'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, gold: str) -> float:
    """Return 1 where two normalised answers are the same, else 0."""
    return float(normalised(answer) == normalised(gold))


def token_f1(answer: str, gold: str, *, unanswerable: bool) -> float:
    """Return F1 of the words that two normalised answers share, each counted as often as it occurs.

    Args:
        answer: predicted.
        gold: accepted.
        unanswerable: the rule of SQuAD 2.0, by which two empty answers are the same; in 1.1 they share no word.
    """
    words, wanted = normalised(answer).split(), normalised(gold).split()
    if unanswerable and not (words and wanted):
        return float(words == wanted)
    shared = sum((Counter(words) & Counter(wanted)).values())
    return 2 * shared / (len(words) + len(wanted)) if shared else 0.0


@dataclass(frozen=True)
class Asked:
    """A question as its file has it.

    Args:
        question: what is asked.
        context: the text.
        answers: accepted answers; empty: there is none.
        rows: rows that hold its windows, in their order.
    """

    question: str
    context: str
    answers: tuple[str, ...]
    rows: tuple[int, ...]


def questions_of(rows: Rows) -> list[Asked]:
    """Return the questions of a set, each with its windows, in the order of their first rows."""
    found = []
    for order in windows_of(rows):
        record = record_of(rows, order[0])
        found.append(Asked(record["question"], record["context"], tuple(record["answers"]), tuple(order)))
    return found


def read_spans(scores: Tensor, tensors: Mapping[str, Tensor], rows: Rows) -> list[Window]:
    """Return for each window the score of its best answer, its first and last place, and the score of none.

    An answer begins where its token has most context in this window, so that no window is asked about its edges.

    Args:
        scores: [B, T, 2] of the head span.
        tensors: the batch, with `answer_places`.
        rows: its rows.

    Raises:
        IntegrityError: a score is no finite number.
    """
    if not scores[tensors["answer_places"]].isfinite().all():
        raise IntegrityError("the scores of an answer are no finite numbers: the weights are no use")
    owned = torch.zeros_like(tensors["answer_places"])
    for number, places in enumerate(rows.columns["owned_places"][row] for row in range(len(rows))):
        owned[number, torch.from_numpy(places.astype(np.int64))] = True
    owned[:, 0] = True  # the score of no answer is that of place 0
    starts = scores[..., 0].float().masked_fill(~owned, -torch.inf)
    null = torch.zeros(len(rows), dtype=torch.int64)
    found = read_answers(torch.stack((starts, scores[..., 1].float()), -1), tensors["answer_places"], null, _LONGEST)
    columns = [column.tolist() for column in (found.score, found.first, found.last, found.null)]
    return list(zip(*columns, strict=True))


def answer_metrics(facts: TaskFacts, asked: Sequence[Asked], found: Sequence[str]) -> dict[str, float]:
    """Return F1 and exact match, each the mean over questions of the best accepted answer, from 0 to 1.

    Where questions may have no answer, there are also those of the questions that have one, for empty answers alone
    reach a half on SQuAD 2.0.
    """
    return {name: value_of(name, np.sum(units, axis=0)) for name, units in answer_units(facts, asked, found).items()}


def answer_units(facts: TaskFacts, asked: Sequence[Asked], found: Sequence[str]) -> dict[str, Units]:
    """Return the metrics of each question, as numbers of means."""
    v2 = facts.unanswerable
    exact, f1 = [], []
    for one, answer in zip(asked, found, strict=True):
        golds = [gold for gold in one.answers if normalised(gold)] if v2 else list(one.answers)
        golds = golds or [""]
        exact.append(max(exact_match(answer, gold) for gold in golds))
        f1.append(max(token_f1(answer, gold, unanswerable=v2) for gold in golds))
    units = {"f1": mean_units(f1), "exact_match": mean_units(exact)}
    has = [float(bool(one.answers)) for one in asked]
    if v2 and any(has):
        units |= {"answerable_f1": mean_units(f1, has), "answerable_exact_match": mean_units(exact, has)}
    return units


def answer_scores(facts: TaskFacts, rows: Rows, predicted: Mapping[int, Window]) -> Scored:
    """Return the scores of all questions of a set; an answer is cut from the text, never put together from tokens.

    Args:
        facts: of the task.
        rows: of the set.
        predicted: what `read_spans` returned for each row.
    """
    asked = questions_of(rows)
    answers = [_answer(one, rows, predicted, facts) for one in asked]
    baselines = {"best_sentence": _best_sentences(asked)}
    if facts.unanswerable:
        baselines["no_answer"] = [""] * len(asked)
    scored = {name: answer_metrics(facts, asked, found) for name, found in baselines.items()}
    units = answer_units(facts, asked, answers)
    return Scored(len(asked), answer_metrics(facts, asked, answers), scored, units=units)


def _answer(asked: Asked, rows: Rows, predicted: Mapping[int, Window], facts: TaskFacts) -> str:
    score, first, last, null = (
        torch.tensor(column) for column in zip(*(predicted[row] for row in asked.rows), strict=True)
    )
    threshold = 0.0 if facts.unanswerable else torch.inf
    found = Answers(score, first, last, null).of_question(threshold)
    if found is None or not torch.isfinite(score).any():
        return ""
    row, begin, end = found
    offsets = rows.columns["offsets"][asked.rows[row]].reshape(-1, 2)
    return asked.context[int(offsets[begin, 0]) : int(offsets[end, 1])]


def _best_sentences(asked: Sequence[Asked]) -> list[str]:
    """Return of each text the sentence with the highest TF-IDF cosine to the question, the first of equal ones."""
    splitter = Regex(Regex.Options())
    parts: dict[str, list[str]] = {}
    for context in dict.fromkeys(one.context for one in asked):
        starts = [*splitter.starts(context, "und"), len(context)]
        parts[context] = [context[begin:end].strip() for begin, end in pairwise(starts)]
    sentences = [sentence for found in parts.values() for sentence in found]
    vectors = TfidfVectorizer(token_pattern=r"\S+", sublinear_tf=True)
    table = vectors.fit_transform(sentences)
    questions = vectors.transform([one.question for one in asked])
    places = dict(zip(parts, np.cumsum([0, *map(len, parts.values())]).tolist(), strict=False))
    found = []
    for number, one in enumerate(asked):
        first = places[one.context]
        cosines = (table[first : first + len(parts[one.context])] @ questions[number].T).toarray()[:, 0]
        found.append(parts[one.context][int(cosines.argmax())])
    return found
