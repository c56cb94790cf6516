"""Score generated texts: exact match, BLEU and chrF by sacrebleu, ROUGE by rouge_score, next to simple baselines."""

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
from clozeline.tools.runs.evaluation.predictions import iterate_batches
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
from clozeline.tools.runs.evaluation.written_answers import has_written_answers, score_written_answers

_UnitsOf: TypeAlias = Callable[[Sequence[str], Sequence[Sequence[str]], str], Units]
"""Counts per text, from the texts, the accepted texts and their language."""
_SPLITTER: Final = Regex(Regex.Options())


def generate_share(opened: TaskRun, rows: Rows, rank: int, size: int) -> dict[int, str]:
    """Return the greedy output for each row of one process's share, by row index."""
    objective = opened.shards.manifest.objective
    assert objective is not None, "a set of examples"
    tokenizer = opened.trained.tokenizer
    decoding = Decoding(max_tokens=int(objective.options["max_length"]))
    end = {tokenizer.vocabulary.id_of("eos", "evaluate")}
    texts_by_row: dict[int, str] = {}
    for batch in iterate_batches(rows, rank, size):
        prompts = [_prompt_of(rows, row) for row in batch.tolist()]
        texts = generate(
            opened.trained.model, prompts, decoding, end_ids=end, decoder_start=objective.frame.decoder_start
        )
        texts_by_row |= {
            row: decode_text(tokenizer, continuation.ids)
            for row, continuation in zip(batch.tolist(), texts, strict=True)
        }
    return texts_by_row


def decode_text(tokenizer: Tokenizer, ids: Iterable[int]) -> str:
    """Return the text of tokens without special tokens and surrounding white space."""
    return tokenizer.decode([token for token in ids if not tokenizer.vocabulary.special[token]]).strip()


def _prompt_of(rows: Rows, row: int) -> list[int]:
    """Return the prompt: the encoder's row, or everything before a decoder's last answer."""
    ids: list[int] = rows.columns["input_ids"][row].tolist()
    if "label_positions" not in rows.columns:
        return ids
    positions = rows.columns["label_positions"][row].astype(np.int64)
    breaks = np.flatnonzero(np.diff(positions) != 1)
    return ids[: positions[breaks[-1] + 1 if len(breaks) else 0]]


def _exact_match(texts: Sequence[str], golds: Sequence[Sequence[str]], language: str) -> Units:
    """Return which texts equal an accepted one, ignoring surrounding white space."""
    return mean_units(
        text.strip() in {gold.strip() for gold in accepted} for text, accepted in zip(texts, golds, strict=True)
    )


def _corpus_units_of(name: str) -> _UnitsOf:
    def units(texts: Sequence[str], golds: Sequence[Sequence[str]], language: str) -> Units:
        most = max(map(len, golds))
        references = [[gold[index] if index < len(gold) else None for gold in golds] for index in range(most)]
        return corpus_units(_sacrebleu_metric(name, golds, language), texts, references)

    return units


def _sacrebleu_metric(name: str, golds: Sequence[Sequence[str]], language: str) -> Any:
    return corpus_metric(name, bleu_tokenizer(language, [text for gold in golds for text in gold]))


def _rouge_units_of(name: str) -> _UnitsOf:
    def units(texts: Sequence[str], golds: Sequence[Sequence[str]], language: str) -> Units:
        letters = [letter for gold in golds for text in gold for letter in text if letter.isalpha()]
        plain = 2 * sum(letter.isascii() for letter in letters) >= len(letters)
        scorer = RougeScorer([name], use_stemmer=True) if plain else RougeScorer([name], tokenizer=Words())
        if name == "rougeLsum":
            texts, golds = (
                [_split_lines(text) for text in texts],
                [[_split_lines(text) for text in gold] for gold in golds],
            )
        return mean_units(
            scorer.score_multi(list(gold), text)[name].fmeasure for text, gold in zip(texts, golds, strict=True)
        )

    return units


_METRICS: Final[dict[str, _UnitsOf]] = {
    "exact_match": _exact_match,
    **{name: _corpus_units_of(name) for name in CORPUS_METRICS},
    **{name: _rouge_units_of(name) for name in ("rouge1", "rouge2", "rougeL", "rougeLsum")},
}
"""Counts per text, from whose sums each metric follows, from 0 to 1."""


def text_units(
    facts: TaskFacts, texts: Sequence[str], golds: Sequence[Sequence[str]], language: str = "und"
) -> dict[str, Units]:
    """Return the counts per text, from whose sums the task's metrics follow."""
    return {name: _METRICS[name](texts, golds, language) for name in facts.metrics}


def text_metrics(
    facts: TaskFacts, texts: Sequence[str], golds: Sequence[Sequence[str]], language: str = "und"
) -> dict[str, float]:
    """Return the task's metrics of texts, from 0 to 1: BLEU and chrF over the corpus, the others as means.

    `golds` are the accepted texts of each; `language` und: their script decides how BLEU tokenizes them.
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


def _split_lines(text: str) -> str:
    """Return a text with one sentence per line, as rougeLsum expects."""
    return "\n".join(_sentences(text))


def _sentences(text: str) -> list[str]:
    starts = [*_SPLITTER.starts(text, "und"), len(text)]
    return [text[begin:end].strip() for begin, end in pairwise(starts)]


def text_scores(
    facts: TaskFacts, train: Rows, rows: Rows, predicted: Mapping[int, str], language: str = "und"
) -> Scored:
    """Return the scores of all rows next to the baselines.

    These are the source itself, its first three sentences, and the most frequent target of the training set, which is
    the only one if texts name classes or numbers.
    """
    records, train_records = ([record_of(side, row) for row in range(len(side))] for side in (rows, train))
    golds = [record["targets"] for record in records]
    if has_written_answers(facts):
        most, targets = ([record["targets"][0] for record in side] for side in (train_records, records))
        return score_written_answers(facts, most, targets, [predicted[row] for row in range(len(records))])
    counts = Counter(record["targets"][0] for record in train_records)
    most_frequent = min(counts, key=lambda text: (-counts[text], text))
    baselines = {
        "copy": [record["source"] for record in records],
        "lead_3": [lead(record["source"]) for record in records],
        "majority": [most_frequent] * len(records),
    }
    texts = [predicted[row] for row in range(len(records))]
    scored = {name: text_metrics(facts, texts, golds, language) for name, texts in baselines.items()}
    return Scored(
        len(records),
        text_metrics(facts, texts, golds, language),
        scored,
        units=text_units(facts, texts, golds, language),
        signatures={name: _signature(name, golds, language) for name in facts.metrics if name in CORPUS_METRICS},
    )


def _signature(name: str, golds: Sequence[Sequence[str]], language: str) -> str:
    """Return sacrebleu's own description of how it computes a metric."""
    metric = _sacrebleu_metric(name, golds, language)
    metric.num_refs = max(map(len, golds))
    return str(metric.get_signature())
