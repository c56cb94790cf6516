"""Score generated texts: exact match, BLEU and chrF by sacrebleu, ROUGE by rouge_score, next to simple baselines."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu.metrics import BLEU, CHRF

from clozeline.model.generation.decoding import Decoding
from clozeline.model.generation.generate import generate
from clozeline.pipeline.rows import Rows
from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.pipeline.tasks.task_rows import record_of
from clozeline.pipeline.text.sentences.regex import Regex
from clozeline.pipeline.tokenize.tokenizers import Tokenizer
from clozeline.tools.runs.evaluation import written_answers
from clozeline.tools.runs.evaluation.metrics import Scored, mean
from clozeline.tools.runs.evaluation.predictions import iterate_batches
from clozeline.tools.runs.evaluation.task_run import TaskRun
from clozeline.tools.runs.evaluation.text_words import Words, bleu_tokenizer
from clozeline.tools.runs.inference.generation import find_end_ids

CORPUS_METRICS: Final = ("bleu", "chrf")
"""Metrics over the corpus, by sacrebleu."""
_SPLITTER: Final = Regex(Regex.Options())


def generate_share(opened: TaskRun, rows: Rows, rank: int, size: int) -> dict[int, str]:
    """Return the greedy output for each row of one process's share, by row index."""
    objective = opened.shards.manifest.objective
    assert objective is not None, "a set of examples"
    tokenizer = opened.trained.tokenizer
    decoding = Decoding(max_tokens=int(objective.options["max_length"]))
    end = {tokenizer.vocabulary.id_of("eos", "evaluate"), *find_end_ids(tokenizer)}
    texts_by_row: dict[int, str] = {}
    for batch in iterate_batches(rows, rank, size):
        prompts = [_prompt_of(rows, row) for row in batch.tolist()]
        start = objective.frame.decoder_start
        # a task's rows start with one token; only rows with language tokens start with their target's last one
        assert start != "target_end", objective.label
        continuations = generate(opened.trained.model, prompts, decoding, end_ids=end, decoder_start=start)
        texts = (decode_text(tokenizer, continuation.ids) for continuation in continuations)
        texts_by_row |= dict(zip(batch.tolist(), texts, strict=True))
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


def _sacrebleu_metric(name: str, golds: Sequence[Sequence[str]], language: str) -> Any:
    """Return sacrebleu's metric, with the tokenizer of the language for BLEU."""
    texts = [text for gold in golds for text in gold]
    return BLEU(tokenize=bleu_tokenizer(language, texts)) if name == "bleu" else CHRF()


def _metric_of(name: str, texts: Sequence[str], golds: Sequence[Sequence[str]], language: str) -> float:
    """Return a metric from 0 to 1."""
    if name == "exact_match":
        pairs = zip(texts, golds, strict=True)
        return mean(text.strip() in {gold.strip() for gold in accepted} for text, accepted in pairs)
    if name in CORPUS_METRICS:
        most = max(map(len, golds))
        references = [[gold[index] if index < len(gold) else None for gold in golds] for index in range(most)]
        return float(_sacrebleu_metric(name, golds, language).corpus_score(list(texts), references).score) / 100
    # ROUGE stems words of texts that are mostly in ASCII letters
    letters = [letter for gold in golds for text in gold for letter in text if letter.isalpha()]
    plain = 2 * sum(letter.isascii() for letter in letters) >= len(letters)
    scorer = RougeScorer([name], use_stemmer=True) if plain else RougeScorer([name], tokenizer=Words())
    if name == "rougeLsum":  # expects one sentence per line
        texts = ["\n".join(_sentences(text)) for text in texts]
        golds = [["\n".join(_sentences(text)) for text in gold] for gold in golds]
    scored = (scorer.score_multi(list(gold), text) for text, gold in zip(texts, golds, strict=True))
    return mean(scores[name].fmeasure for scores in scored)


def text_metrics(
    facts: TaskFacts, texts: Sequence[str], golds: Sequence[Sequence[str]], language: str = "und"
) -> dict[str, float]:
    """Return the task's metrics of texts, from 0 to 1: BLEU and chrF over the corpus, the others as means.

    `golds` are the accepted texts of each; `language` und: their script decides how BLEU tokenizes them.
    """
    return {name: _metric_of(name, texts, golds, language) for name in facts.metrics}


def lead(text: str, sentences: int = 3) -> str:
    """Return the first sentences of a text, a strong summary of news.

    Example:
        >>> lead("One. Two! Three? Four.")
        'One. Two! Three?'
    """
    return " ".join(_sentences(text)[:sentences])


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
    texts = [predicted[row] for row in range(len(records))]
    train_targets, targets = ([record["targets"][0] for record in side] for side in (train_records, records))
    if written_answers.has_written_answers(facts):
        return written_answers.score_written_answers(facts, train_targets, targets, texts)
    golds, sources = [record["targets"] for record in records], [record["source"] for record in records]
    majority = [written_answers.most_frequent_text(train_targets)] * len(records)
    baselines = {"copy": sources, "lead_3": [lead(source) for source in sources], "majority": majority}
    scored = {name: text_metrics(facts, own, golds, language) for name, own in baselines.items()}
    signatures = {}
    for name in facts.metrics:
        if name in CORPUS_METRICS:  # sacrebleu's own description of how it computes a metric
            metric = _sacrebleu_metric(name, golds, language)
            metric.num_refs = max(map(len, golds))
            signatures[name] = str(metric.get_signature())
    return Scored(len(records), text_metrics(facts, texts, golds, language), scored, signatures=signatures)
