"""Scores of generated texts: exact match, BLEU and chrF by sacrebleu, ROUGE by rouge_score, beside plain baselines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
from rouge_score.rouge_scorer import RougeScorer

from clozeline.model.generation.decoding import Decoding
from clozeline.model.generation.generate import generate
from clozeline.pipeline.rows import Rows
from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.pipeline.tasks.task_rows import record_of
from clozeline.pipeline.text.sentences.regex import Regex
from clozeline.pipeline.tokenize.tokenizers import Tokenizer
from clozeline.tools.runs.evaluation.metrics import Scored
from clozeline.tools.runs.evaluation.predictions import dealt
from clozeline.tools.runs.evaluation.task_run import TaskRun
from clozeline.tools.runs.evaluation.text_words import Words, bleu_tokenizer
from clozeline.tools.runs.evaluation.unit_sums import (
    CORPUS_METRICS,
    Units,
    corpus_metric,
    corpus_units,
    mean_units,
    value_of,
)
from clozeline.tools.runs.evaluation.written_answers import has_written_answers, written_scores

_UnitsOf: TypeAlias = Callable[[Sequence[str], Sequence[Sequence[str]], str], Units]
"""Numbers of each text, from the texts, the accepted texts and their language"""
_SPLITTER: Final = Regex(Regex.Options())


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
        found |= {row: written_text(tokenizer, one.ids) for row, one in zip(batch.tolist(), texts, strict=True)}
    return found


def written_text(tokenizer: Tokenizer, ids: Iterable[int]) -> str:
    """Return the text of tokens without the special ones among them, and without white space around it."""
    return tokenizer.decode([token for token in ids if not tokenizer.vocabulary.special[token]]).strip()


def _prompt(rows: Rows, row: int) -> list[int]:
    """Return what is given: the row of the encoder, or of a decoder all before its last answer."""
    ids: list[int] = rows.columns["input_ids"][row].tolist()
    if "label_positions" not in rows.columns:
        return ids
    places = rows.columns["label_positions"][row].astype(np.int64)
    breaks = np.flatnonzero(np.diff(places) != 1)
    return ids[: places[breaks[-1] + 1 if len(breaks) else 0]]


def _exact_match(texts: Sequence[str], golds: Sequence[Sequence[str]], language: str) -> Units:
    """Return which texts are an accepted one, white space around them aside; any other is wrong."""
    return mean_units(
        text.strip() in {gold.strip() for gold in given} for text, given in zip(texts, golds, strict=True)
    )


def _corpus(name: str) -> _UnitsOf:
    def units(texts: Sequence[str], golds: Sequence[Sequence[str]], language: str) -> Units:
        most = max(map(len, golds))
        references = [[gold[place] if place < len(gold) else None for gold in golds] for place in range(most)]
        return corpus_units(_metric(name, golds, language), texts, references)

    return units


def _metric(name: str, golds: Sequence[Sequence[str]], language: str) -> Any:
    return corpus_metric(name, bleu_tokenizer(language, [text for gold in golds for text in gold]))


def _rouge(name: str) -> _UnitsOf:
    def units(texts: Sequence[str], golds: Sequence[Sequence[str]], language: str) -> Units:
        letters = [letter for gold in golds for text in gold for letter in text if letter.isalpha()]
        plain = 2 * sum(letter.isascii() for letter in letters) >= len(letters)
        scorer = RougeScorer([name], use_stemmer=True) if plain else RougeScorer([name], tokenizer=Words())
        if name == "rougeLsum":
            texts, golds = [_by_lines(text) for text in texts], [[_by_lines(text) for text in gold] for gold in golds]
        return mean_units(
            scorer.score_multi(list(gold), text)[name].fmeasure for text, gold in zip(texts, golds, strict=True)
        )

    return units


_METRICS: Final[dict[str, _UnitsOf]] = {
    "exact_match": _exact_match,
    **{name: _corpus(name) for name in CORPUS_METRICS},
    **{name: _rouge(name) for name in ("rouge1", "rouge2", "rougeL", "rougeLsum")},
}
"""Numbers of each text, from whose sums the metrics follow, each from 0 to 1."""


def text_units(
    facts: TaskFacts, texts: Sequence[str], golds: Sequence[Sequence[str]], language: str = "und"
) -> dict[str, Units]:
    """Return the numbers of each text, from whose sums the task's metrics follow."""
    return {name: _METRICS[name](texts, golds, language) for name in facts.metrics}


def text_metrics(
    facts: TaskFacts, texts: Sequence[str], golds: Sequence[Sequence[str]], language: str = "und"
) -> dict[str, float]:
    """Return the task's metrics of texts, from 0 to 1: BLEU and chrF of all texts at once, the others as means.

    Args:
        facts: of the task.
        texts: predicted.
        golds: accepted texts of each.
        language: code of the accepted texts' language; und: their script decides how BLEU cuts them.
    """
    units = text_units(facts, texts, golds, language)
    return {name: value_of(name, np.sum(numbers, axis=0)) for name, numbers in units.items()}


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


def text_scores(
    facts: TaskFacts, train: Rows, rows: Rows, predicted: Mapping[int, str], language: str = "und"
) -> Scored:
    """Return the scores of all rows beside the baselines.

    They are the source itself, its first three sentences, and the most frequent target of the training set, which is
    the only one of texts that name classes or numbers.

    Args:
        facts: of the task.
        train: rows of the training set.
        rows: of the set.
        predicted: text of each row.
        language: code of the targets' language.
    """
    records, learnt = ([record_of(side, row) for row in range(len(side))] for side in (rows, train))
    golds = [record["targets"] for record in records]
    if has_written_answers(facts):
        most, wanted = ([record["targets"][0] for record in side] for side in (learnt, records))
        return written_scores(facts, most, wanted, [predicted[row] for row in range(len(records))])
    counts = Counter(record["targets"][0] for record in learnt)
    frequent = min(counts, key=lambda text: (-counts[text], text))
    baselines = {
        "copy": [record["source"] for record in records],
        "lead_3": [lead(record["source"]) for record in records],
        "majority": [frequent] * len(records),
    }
    found = [predicted[row] for row in range(len(records))]
    scored = {name: text_metrics(facts, texts, golds, language) for name, texts in baselines.items()}
    return Scored(
        len(records),
        text_metrics(facts, found, golds, language),
        scored,
        units=text_units(facts, found, golds, language),
        signatures={name: _signature(name, golds, language) for name in facts.metrics if name in CORPUS_METRICS},
    )


def _signature(name: str, golds: Sequence[Sequence[str]], language: str) -> str:
    """Return how sacrebleu computes a metric, in its own words."""
    metric = _metric(name, golds, language)
    metric.num_refs = max(map(len, golds))
    return str(metric.get_signature())
