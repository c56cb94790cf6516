"""Scores of tagged words: entity F1 by seqeval, lenient and strict, and accuracy, beside the most frequent tag."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import torch
from seqeval.metrics import f1_score
from seqeval.scheme import IOB2
from torch import Tensor

from clozeline.errors import IntegrityError
from clozeline.model.decoding.tags import bio_transitions, viterbi
from clozeline.pipeline.rows import Rows
from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.pipeline.tasks.readers._tag_schemes import to_bio
from clozeline.pipeline.tasks.task_rows import record_of
from clozeline.tools.runs.evaluation.metrics import Scored
from clozeline.tools.runs.evaluation.predictions import windows_of
from clozeline.tools.runs.evaluation.unit_sums import Units, entity_units

Tags: TypeAlias = list[list[str]]
_NONE: Final = "O"
"""Tag of a word without tokens: none of an entity; where tags are plain classes it is wrong."""


@dataclass(frozen=True)
class Sentence:
    """A sentence as its file has it.

    Args:
        words: of the sentence.
        tags: names of their classes.
        rows: rows that hold its windows, in their order.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    rows: tuple[int, ...]


def sentences_of(rows: Rows, facts: TaskFacts) -> list[Sentence]:
    """Return the sentences of a set, put together from their windows, in the order of their first rows."""
    found = []
    for order in windows_of(rows):
        records = [record_of(rows, row) for row in order]
        words = tuple(word for record in records for word in record["words"])
        tags = tuple(facts.labels[tag] for record in records for tag in record["tags"])
        found.append(Sentence(words, tags, tuple(order)))
    return found


def read_tags(scores: Tensor, tensors: Mapping[str, Tensor], rows: Rows, *, facts: TaskFacts) -> list[list[list[int]]]:
    """Return for each row the classes of its tagged words: the best of each word, and the best sequence.

    The sequence obeys the rules of BIO, where the tags are such; of other tags both are the same.

    Args:
        scores: [B, T, C] of the head tagging.
        tensors: the batch, with `label_index`.
        rows: its rows.
        facts: of the task.

    Raises:
        IntegrityError: a score is no finite number.
    """
    index = tensors["label_index"]
    flat = scores.flatten(0, 1)[index].float()
    if not flat.isfinite().all():
        raise IntegrityError("the scores of a tagged word are no finite numbers: the weights are no use")
    counts = torch.bincount(index // scores.shape[1], minlength=len(scores))
    parts = torch.split(flat, counts.tolist())
    if not _has_entities(facts) or any(label[0] in "ES" for label in facts.labels):
        return [[(best := part.argmax(-1).tolist()), best] for part in parts]
    padded = torch.nn.utils.rnn.pad_sequence([*parts, flat.new_zeros(1, scores.shape[-1])], batch_first=True)
    tags = viterbi(padded[:-1], counts, *bio_transitions(facts.labels))
    return [
        [part.argmax(-1).tolist(), row[:count].tolist()]
        for part, row, count in zip(parts, tags, counts.tolist(), strict=True)
    ]


def _has_entities(facts: TaskFacts) -> bool:
    return "entity_f1" in facts.metrics


def tag_metrics(facts: TaskFacts, gold: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return the metrics of tags, sentence by sentence.

    `entity_f1` is conlleval's, which reads an inner tag without its begin as an entity; `strict_entity_f1` counts well
    formed ones of IOB2 alone. Both are computed over all sentences at once.

    Args:
        facts: of the task.
        gold: tags of each sentence.
        found: those predicted.
    """
    pairs = [pair for one, other in zip(gold, found, strict=True) for pair in zip(one, other, strict=True)]
    accuracy = sum(one == other for one, other in pairs) / max(1, len(pairs))
    if not _has_entities(facts):
        return {"accuracy": accuracy}
    first, second = ([to_bio(tags) if _bioes(facts) else list(tags) for tags in side] for side in (gold, found))
    if not any(tag != _NONE for tags in (*first, *second) for tag in tags):
        return {"entity_f1": 0.0, "strict_entity_f1": 0.0, "accuracy": accuracy}
    return {
        "entity_f1": float(f1_score(first, second, zero_division=0)),
        "strict_entity_f1": float(f1_score(first, second, mode="strict", scheme=IOB2, zero_division=0)),
        "accuracy": accuracy,
    }


def _bioes(facts: TaskFacts) -> bool:
    return any(label.startswith("S-") for label in facts.labels)


def tag_baselines(facts: TaskFacts, train: Sequence[Sentence], given: Sequence[Sentence]) -> dict[str, Tags]:
    """Return the tags that each baseline gives, learnt from the training set.

    `majority` gives every word the most frequent tag of all, `most_frequent_tag` each word its own, and unknown words
    that of all. `capitals` gives unknown words PROPN where they begin with a capital and NOUN elsewhere, where the task
    has both.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for sentence in train:
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            counts[word][tag] += 1
    order = {label: number for number, label in enumerate(facts.labels)}
    overall = _first(sum(counts.values(), Counter()), order)
    known = {word: _first(tags, order) for word, tags in counts.items()}
    found = {
        "majority": [[overall] * len(one.words) for one in given],
        "most_frequent_tag": [[known.get(word, overall) for word in one.words] for one in given],
    }
    if {"PROPN", "NOUN"} <= order.keys():
        found["capitals"] = [
            [known.get(word, "PROPN" if word[:1].isupper() else "NOUN") for word in one.words] for one in given
        ]
    return found


def _first(tags: Counter[str], order: Mapping[str, int]) -> str:
    """Return the most frequent tag, the first of the task's among equally frequent ones."""
    return min(tags, key=lambda tag: (-tags[tag], order[tag]))


def tag_scores(facts: TaskFacts, train: Rows, rows: Rows, predicted: Mapping[int, list[list[int]]]) -> Scored:
    """Return the scores of all words of a set; those without tokens have the tag O.

    Besides the task's metrics there is `argmax_entity_f1`, of the best tag of each word by itself, and for plain
    classes `unknown_accuracy`, that of words which the training set has not.

    Args:
        facts: of the task.
        train: rows of the training set.
        rows: of the set.
        predicted: what `read_tags` returned for each row.
    """
    given, learnt = sentences_of(rows, facts), sentences_of(train, facts)
    gold = [one.tags for one in given]
    best, sequence = ([_tags_of(one, rows, predicted, facts, way) for one in given] for way in (0, 1))
    known = {word for one in learnt for word in one.words}

    def metrics(found: Tags) -> dict[str, float]:
        scores = tag_metrics(facts, gold, found)
        if not _has_entities(facts):
            unknown = [[word not in known for word in one.words] for one in given]
            pairs = [(one, other) for ones, others, marks in zip(gold, found, unknown, strict=True)
                     for one, other, mark in zip(ones, others, marks, strict=True) if mark]  # fmt: skip
            scores["unknown_accuracy"] = sum(one == other for one, other in pairs) / max(1, len(pairs))
        return scores

    scores, units = metrics(sequence), tag_units(facts, gold, sequence, known, [one.words for one in given])
    baselines = {name: metrics(found) for name, found in tag_baselines(facts, learnt, given).items()}
    if _has_entities(facts):
        scores["argmax_entity_f1"] = tag_metrics(facts, gold, best)["entity_f1"]
        units["argmax_entity_f1"] = tag_units(facts, gold, best, known, [one.words for one in given])["entity_f1"]
        baselines = {name: {**found, "argmax_entity_f1": found["entity_f1"]} for name, found in baselines.items()}
    return Scored(sum(map(len, gold)), scores, baselines, units=units)


def tag_units(
    facts: TaskFacts,
    gold: Sequence[Sequence[str]],
    found: Sequence[Sequence[str]],
    known: Collection[str],
    words: Sequence[Sequence[str]],
) -> dict[str, Units]:
    """Return the numbers of each sentence, from whose sums the metrics follow.

    Args:
        facts: of the task.
        gold: tags of each sentence.
        found: those predicted.
        known: words of the training set.
        words: of each sentence.
    """
    right = [[one == other for one, other in zip(*pair, strict=True)] for pair in zip(gold, found, strict=True)]
    units: dict[str, Units] = {"accuracy": [[float(sum(one)), float(len(one))] for one in right]}
    if not _has_entities(facts):
        new = [[word not in known for word in one] for one in words]
        units["unknown_accuracy"] = [
            [float(sum(map(int.__and__, one, marks))), float(sum(marks))] for one, marks in zip(right, new, strict=True)
        ]
        return units
    first, second = ([to_bio(tags) if _bioes(facts) else list(tags) for tags in side] for side in (gold, found))
    entities = {"entity_f1": False, "strict_entity_f1": True}
    return units | {name: entity_units(first, second, strict=strict) for name, strict in entities.items()}


def _tags_of(
    sentence: Sentence, rows: Rows, predicted: Mapping[int, list[list[int]]], facts: TaskFacts, way: int
) -> list[str]:
    """Return the tag of each word of a sentence, from the windows that own it."""
    found = [_NONE] * len(sentence.words)
    for row in sentence.rows:
        places = rows.columns["tag_positions"][row].astype(int)
        words = rows.columns["word_numbers"][row][places].tolist()
        for word, tag in zip(words, predicted[row][way], strict=True):
            found[word] = facts.labels[tag]
    return found
