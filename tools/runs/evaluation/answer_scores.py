"""Score extracted answers: SQuAD's F1 and exact match, next to the sentence most similar to the question."""

import math
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
from clozeline.tools.runs.evaluation.answer_threshold import best_threshold
from clozeline.tools.runs.evaluation.metrics import Scored, mean
from clozeline.tools.runs.evaluation.predictions import windows_of

Window: TypeAlias = tuple[float, int, int, float]
_LONGEST: Final = 30
"""maximum tokens per answer (arXiv 1810.04805)"""
_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)
_ARTICLES: Final = re.compile(r"\b(a|an|the)\b")


def normalize(text: str) -> str:
    """Normalize a text like SQuAD: lower case, without ASCII punctuation, articles and extra white space.

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

    `unanswerable` applies the rule of SQuAD 2.0, by which two empty answers are equal; in 1.1 they share no word.
    """
    words, gold_words = normalize(answer).split(), normalize(gold).split()
    if unanswerable and not (words and gold_words):
        return float(words == gold_words)
    shared = sum((Counter(words) & Counter(gold_words)).values())
    return 2 * shared / (len(words) + len(gold_words)) if shared else 0.0


@dataclass(frozen=True)
class AnsweredQuestion:
    """A question from its file, with its accepted answers (or none) and the rows of its windows, in order."""

    question: str
    context: str
    answers: tuple[str, ...]
    rows: tuple[int, ...]


def questions_of(rows: Rows) -> list[AnsweredQuestion]:
    """Return the questions of a set, each with its windows, in the order of their first rows."""
    records = ((record_of(rows, order[0]), tuple(order)) for order in windows_of(rows))
    return [
        AnsweredQuestion(record["question"], record["context"], tuple(record["answers"]), order)
        for record, order in records
    ]


def read_spans(scores: Tensor, tensors: Mapping[str, Tensor], rows: Rows) -> list[Window]:
    """Return, per window, the score, first and last position of its best answer, and the score of no answer.

    An answer starts where its token has the most context among the windows, so that no window is read at its edges.
    `scores` [B, T, 2] come from the head span.
    """
    if not scores[tensors["answer_places"]].isfinite().all():
        raise IntegrityError("the scores of an answer are not finite: the weights are unusable")
    # mask of the positions at which an answer may start [B, T]
    is_owned = torch.zeros_like(tensors["answer_places"])
    for number, positions in enumerate(rows.columns["owned_places"][row] for row in range(len(rows))):
        is_owned[number, torch.from_numpy(positions.astype(np.int64))] = True
    is_owned[:, 0] = True  # the score of "no answer" is at position 0
    # best span of each window among the allowed positions
    starts = scores[..., 0].float().masked_fill(~is_owned, -torch.inf)
    null = torch.zeros(len(rows), dtype=torch.int64)
    answers = read_answers(torch.stack((starts, scores[..., 1].float()), -1), tensors["answer_places"], null, _LONGEST)
    columns = [column.tolist() for column in (answers.score, answers.first, answers.last, answers.null)]
    return list(zip(*columns, strict=True))


def answer_metrics(facts: TaskFacts, asked: Sequence[AnsweredQuestion], answers: Sequence[str]) -> dict[str, float]:
    """Return F1 and exact match, each the mean over questions of the best accepted answer, from 0 to 1.

    If questions may have no answer, also those of the answerable questions, because always answering "none" reaches one
    half on SQuAD 2.0.
    """
    exact, f1 = _question_scores(facts, asked, answers)
    metrics = {"f1": mean(f1), "exact_match": mean(exact)}
    answerable = [number for number, question in enumerate(asked) if question.answers]
    if facts.unanswerable and answerable:
        metrics["answerable_f1"] = mean(f1[number] for number in answerable)
        metrics["answerable_exact_match"] = mean(exact[number] for number in answerable)
    return metrics


def _question_scores(
    facts: TaskFacts, asked: Sequence[AnsweredQuestion], answers: Sequence[str]
) -> tuple[list[float], list[float]]:
    """Return exact match and F1 of each question, those of the best accepted answer."""
    v2 = facts.unanswerable
    exact, f1 = [], []
    for question, answer in zip(asked, answers, strict=True):
        golds = [gold for gold in question.answers if normalize(gold)] if v2 else list(question.answers)
        golds = golds or [""]
        exact.append(max(exact_match(answer, gold) for gold in golds))
        f1.append(max(token_f1(answer, gold, unanswerable=v2) for gold in golds))
    return exact, f1


def answer_scores(facts: TaskFacts, rows: Rows, predicted: Mapping[int, Window], threshold: float = 0.0) -> Scored:
    """Return the scores of all questions of a set, given `read_spans` per row; answers are cut from the text."""
    asked = questions_of(rows)
    answers = [extract_answer(question, rows, predicted, facts, threshold).text for question in asked]
    baselines = {"best_sentence": _most_similar_sentences(asked)}
    if facts.unanswerable:
        baselines["no_answer"] = [""] * len(asked)
    scored = {name: answer_metrics(facts, asked, texts) for name, texts in baselines.items()}
    return Scored(len(asked), answer_metrics(facts, asked, answers), scored)


def choose_threshold(facts: TaskFacts, rows: Rows, predicted: Mapping[int, Window]) -> tuple[float, float]:
    """Return the threshold of no answer with the highest F1 on a set, and that F1; see `best_threshold`."""
    asked = questions_of(rows)
    found = [extract_answer(question, rows, predicted, facts, math.inf) for question in asked]
    _, f1 = _question_scores(facts, asked, [answer.text for answer in found])
    unanswered = [float(not any(map(normalize, question.answers))) for question in asked]
    return best_threshold([answer.null - answer.score for answer in found], f1, unanswered)


@dataclass(frozen=True)
class Answer:
    """An answer of a model, empty if it gives none; `score` is that of its best span, `null` that of no answer."""

    text: str
    start: int | None
    score: float
    null: float


def extract_answer(
    asked: AnsweredQuestion, rows: Rows, predicted: Mapping[int, Window], facts: TaskFacts, threshold: float = 0.0
) -> Answer:
    """Return the answer over all windows of a question, cut from its text.

    If questions may have no answer, none is given where `null` exceeds `score` by more than the threshold.
    """
    windows = Answers(*map(torch.tensor, zip(*(predicted[row] for row in asked.rows), strict=True)))
    answer = windows.of_question(threshold if facts.unanswerable else torch.inf)
    score, null = float(windows.score.max()), float(windows.null.min())
    if answer is None or not math.isfinite(score):
        return Answer("", None, score, null)
    row, begin, end = answer
    offsets = rows.columns["offsets"][asked.rows[row]].reshape(-1, 2)
    start = int(offsets[begin, 0])
    return Answer(asked.context[start : int(offsets[end, 1])], start, score, null)


def _most_similar_sentences(asked: Sequence[AnsweredQuestion]) -> list[str]:
    """Return, per question, the sentence of its text with the highest TF-IDF cosine, the first among ties."""
    # split each text once, and remember where its sentences start in the list of all
    splitter = Regex(Regex.Options())
    parts: dict[str, list[str]] = {}
    for context in dict.fromkeys(question.context for question in asked):
        starts = [*splitter.starts(context, "und"), len(context)]
        parts[context] = [context[begin:end].strip() for begin, end in pairwise(starts)]
    sentences = [sentence for best in parts.values() for sentence in best]
    vectors = TfidfVectorizer(token_pattern=r"\S+", sublinear_tf=True)
    table = vectors.fit_transform(sentences)
    questions = vectors.transform([question.question for question in asked])
    offsets = dict(zip(parts, np.cumsum([0, *map(len, parts.values())]).tolist(), strict=False))
    best = []
    for number, question in enumerate(asked):
        first = offsets[question.context]
        cosines = (table[first : first + len(parts[question.context])] @ questions[number].T).toarray()[:, 0]
        best.append(parts[question.context][int(cosines.argmax())])
    return best
