"""Scores of generated texts: exact match, BLEU and chrF by sacrebleu, ROUGE by rouge_score, beside plain baselines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from rouge_score.rouge_scorer import RougeScorer

from model.generate import Decoding, generate
from pipeline.rows import Rows
from pipeline.sentences.regex import Regex
from pipeline.task_readers import TaskFacts
from pipeline.tasks.task_rows import record_of
from tools.evaluation.metrics import Scored
from tools.evaluation.predictions import dealt
from tools.evaluation.task_run import TaskRun
from tools.evaluation.unit_sums import CORPUS_METRICS, Units, corpus_units, mean_units, value_of

__all__ = ["generated_share", "lead", "text_metrics", "text_scores", "text_units"]

_SPLITTER: Final = Regex(Regex.Options())
_WORD: Final = re.compile(r"\w+")


class _Words:
    """Words of any script in lower case; rouge_score's own reads a to z and digits alone, others would score 0."""

    def tokenize(self, text: str) -> list[str]:
        return _WORD.findall(text.lower())


def generated_share(opened: TaskRun, rows: Rows, rank: int, size: int) -> dict[int, str]:
    """Return the greedy text of each row of one process's share, by the number of the row.

    Args:
        opened: run and split.
        rows: of the split.
        rank: of this process.
        size: number of processes.
    """
    objective = opened.shards.manifest.objective
    assert objective is not None, "a set of examples"
    tokenizer = opened.trained.tokenizer
    decoding = Decoding(max_tokens=int(objective.options["max_length"]))
    end = {tokenizer.vocabulary.id_of("eos", "evaluate")}
    found: dict[int, str] = {}
    for batch in dealt(rows, rank, size):
        prompts = [_prompt(rows, row) for row in batch.tolist()]
        texts = generate(
            opened.trained.model, prompts, decoding, end_ids=end, decoder_start=objective.frame.decoder_start
        )
        found |= {row: tokenizer.decode(one.ids).strip() for row, one in zip(batch.tolist(), texts, strict=True)}
    return found


def _prompt(rows: Rows, row: int) -> list[int]:
    """Return what is given: the row of the encoder, or of a decoder all before its last answer."""
    ids: list[int] = rows.columns["input_ids"][row].tolist()
    if "label_positions" not in rows.columns:
        return ids
    places = rows.columns["label_positions"][row].astype(np.int64)
    breaks = np.flatnonzero(np.diff(places) != 1)
    return ids[: places[breaks[-1] + 1 if len(breaks) else 0]]


def _exact_match(texts: Sequence[str], golds: Sequence[Sequence[str]]) -> Units:
    """Return which texts are an accepted one, white space around them aside; any other is wrong."""
    return mean_units(
        text.strip() in {gold.strip() for gold in given} for text, given in zip(texts, golds, strict=True)
    )


def _corpus(name: str) -> Callable[[Sequence[str], Sequence[Sequence[str]]], Units]:
    def units(texts: Sequence[str], golds: Sequence[Sequence[str]]) -> Units:
        most = max(map(len, golds))
        references = [[gold[place] if place < len(gold) else None for gold in golds] for place in range(most)]
        return corpus_units(name, texts, references)

    return units


def _rouge(name: str) -> Callable[[Sequence[str], Sequence[Sequence[str]]], Units]:
    def units(texts: Sequence[str], golds: Sequence[Sequence[str]]) -> Units:
        letters = [letter for gold in golds for text in gold for letter in text if letter.isalpha()]
        plain = 2 * sum(letter.isascii() for letter in letters) >= len(letters)
        scorer = RougeScorer([name], use_stemmer=True) if plain else RougeScorer([name], tokenizer=_Words())
        if name == "rougeLsum":
            texts, golds = [_by_lines(text) for text in texts], [[_by_lines(text) for text in gold] for gold in golds]
        return mean_units(
            scorer.score_multi(list(gold), text)[name].fmeasure for text, gold in zip(texts, golds, strict=True)
        )

    return units


_METRICS: Final[dict[str, Callable[[Sequence[str], Sequence[Sequence[str]]], Units]]] = {
    "exact_match": _exact_match,
    **{name: _corpus(name) for name in CORPUS_METRICS},
    **{name: _rouge(name) for name in ("rouge1", "rouge2", "rougeL", "rougeLsum")},
}
"""Numbers of each text, from whose sums the metrics follow, each from 0 to 1."""


def text_units(facts: TaskFacts, texts: Sequence[str], golds: Sequence[Sequence[str]]) -> dict[str, Units]:
    """Return the numbers of each text, from whose sums the task's metrics follow.

    Args:
        facts: of the task.
        texts: predicted.
        golds: accepted texts of each.
    """
    return {name: _METRICS[name](texts, golds) for name in facts.metrics}


def text_metrics(facts: TaskFacts, texts: Sequence[str], golds: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return the task's metrics of texts, from 0 to 1: BLEU and chrF of all texts at once, the others as means.

    Args:
        facts: of the task.
        texts: predicted.
        golds: accepted texts of each.
    """
    return {name: value_of(name, np.sum(units, axis=0)) for name, units in text_units(facts, texts, golds).items()}


def lead(text: str, sentences: int = 3) -> str:
    """Return the first sentences of a text, a strong summary of news.

    Example:
        >>> lead("One. Two! Three? Four.")
        'One. Two! Three?'
    """
    return " ".join(_sentences(text)[:sentences])


def _by_lines(text: str) -> str:
    """Return a text with one sentence a line, as rougeLsum expects them."""
    return "\n".join(_sentences(text))


def _sentences(text: str) -> list[str]:
    starts = [*_SPLITTER.starts(text, "und"), len(text)]
    return [text[begin:end].strip() for begin, end in pairwise(starts)]


def text_scores(facts: TaskFacts, train: Rows, rows: Rows, predicted: Mapping[int, str]) -> Scored:
    """Return the scores of all rows beside the baselines.

    They are the source itself, its first three sentences, and the most frequent target of the training set.

    Args:
        facts: of the task.
        train: rows of the training set.
        rows: of the set.
        predicted: text of each row.
    """
    records, learnt = ([record_of(side, row) for row in range(len(side))] for side in (rows, train))
    golds = [record["targets"] for record in records]
    counts = Counter(record["targets"][0] for record in learnt)
    frequent = min(counts, key=lambda text: (-counts[text], text))
    baselines = {
        "copy": [record["source"] for record in records],
        "lead_3": [lead(record["source"]) for record in records],
        "majority": [frequent] * len(records),
    }
    found = [predicted[row] for row in range(len(records))]
    scored = {name: text_metrics(facts, texts, golds) for name, texts in baselines.items()}
    return Scored(
        len(records),
        text_metrics(facts, found, golds),
        scored,
        units=text_units(facts, found, golds),
        signatures={name: _signature(name, max(map(len, golds))) for name in facts.metrics if name in CORPUS_METRICS},
    )


def _signature(name: str, references: int) -> str:
    """Return how sacrebleu computes a metric, in its own words."""
    metric = CORPUS_METRICS[name]()
    metric.num_refs = references
    return str(metric.get_signature())
