"""Score tagged words: lenient and strict entity F1 by seqeval, and accuracy, next to the most frequent tag."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
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
from clozeline.pipeline.tasks.task_rows import record_of
from clozeline.tools.runs.evaluation.metrics import Scored
from clozeline.tools.runs.evaluation.predictions import windows_of

Tags: TypeAlias = list[list[str]]
_NONE: Final = "O"
"""Tag of a word without tokens: no entity; where tags are plain classes, it is wrong."""


@dataclass(frozen=True)
class Sentence:
    """A sentence from its file: words, names of their classes, and the rows that hold its windows, in order."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    rows: tuple[int, ...]


def sentences_of(rows: Rows, facts: TaskFacts) -> list[Sentence]:
    """Return the sentences of a set, assembled from their windows, in the order of their first rows."""
    sentences = []
    for order in windows_of(rows):
        records = [record_of(rows, row) for row in order]
        words = tuple(word for record in records for word in record["words"])
        tags = tuple(facts.labels[tag] for record in records for tag in record["tags"])
        sentences.append(Sentence(words, tags, tuple(order)))
    return sentences


def read_tags(scores: Tensor, tensors: Mapping[str, Tensor], rows: Rows, *, facts: TaskFacts) -> list[list[list[int]]]:
    """Return, per row, the classes of its tagged words: the best of each word, and the best sequence.

    The sequence obeys the rules of BIO where tags are BIO; for other tags both are the same. `scores` [B, T, C] come
    from the head tagging.
    """
    index = tensors["label_index"]
    # scores of the tagged words only [N, C], split by row
    flat = scores.flatten(0, 1)[index].float()
    if not flat.isfinite().all():
        raise IntegrityError("the scores of a tagged word are not finite: the weights are unusable")
    counts = torch.bincount(index // scores.shape[1], minlength=len(scores))
    parts = torch.split(flat, counts.tolist())
    if not _has_entities(facts) or any(label[0] in "ES" for label in facts.labels):
        return [[(best := part.argmax(-1).tolist()), best] for part in parts]
    # Viterbi over rows padded to equal length
    padded = torch.nn.utils.rnn.pad_sequence([*parts, flat.new_zeros(1, scores.shape[-1])], batch_first=True)
    tags = viterbi(padded[:-1], counts, *bio_transitions(facts.labels))
    return [
        [part.argmax(-1).tolist(), row[:count].tolist()]
        for part, row, count in zip(parts, tags, counts.tolist(), strict=True)
    ]


def _has_entities(facts: TaskFacts) -> bool:
    return "entity_f1" in facts.metrics


def tag_metrics(
    facts: TaskFacts, gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Return the metrics of tags, sentence by sentence.

    `entity_f1` is conlleval's, which reads an inside tag without its begin tag as an entity; `strict_entity_f1` counts
    only well-formed IOB2 entities. Both are computed over all sentences at once.
    """
    right = [tag == own for sides in zip(gold, predicted, strict=True) for tag, own in zip(*sides, strict=True)]
    accuracy = sum(right) / max(1, len(right))
    if not _has_entities(facts):
        return {"accuracy": accuracy}
    first, second = ([list(tags) for tags in side] for side in (gold, predicted))
    if not any(tag != _NONE for tags in (*first, *second) for tag in tags):
        return {"entity_f1": 0.0, "strict_entity_f1": 0.0, "accuracy": accuracy}
    return {
        "entity_f1": float(f1_score(first, second, zero_division=0)),
        "strict_entity_f1": float(f1_score(first, second, mode="strict", scheme=IOB2, zero_division=0)),
        "accuracy": accuracy,
    }


def tag_baselines(facts: TaskFacts, train: Sequence[Sentence], sentences: Sequence[Sentence]) -> dict[str, Tags]:
    """Return the tags of each baseline, fitted on the training set.

    `majority` gives every word the most frequent tag overall, `most_frequent_tag` each word its own, and unknown words
    the overall one. `capitals` tags unknown words PROPN if they start with a capital and NOUN otherwise, if the task
    has both.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for sentence in train:
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            counts[word][tag] += 1
    order = {label: number for number, label in enumerate(facts.labels)}
    overall = _most_frequent(sum(counts.values(), Counter()), order)
    known = {word: _most_frequent(tags, order) for word, tags in counts.items()}
    texts = [sentence.words for sentence in sentences]
    baselines = {
        "majority": [[overall] * len(words) for words in texts],
        "most_frequent_tag": [[known.get(word, overall) for word in words] for words in texts],
    }
    if {"PROPN", "NOUN"} <= order.keys():
        baselines["capitals"] = [
            [known.get(word, "PROPN" if word[:1].isupper() else "NOUN") for word in words] for words in texts
        ]
    return baselines


def _most_frequent(tags: Counter[str], order: Mapping[str, int]) -> str:
    """Return the most frequent tag, the first in task order among ties."""
    return min(tags, key=lambda tag: (-tags[tag], order[tag]))


def tag_scores(facts: TaskFacts, train: Rows, rows: Rows, predicted: Mapping[int, list[list[int]]]) -> Scored:
    """Return the scores of all words of a set, given `read_tags` per row; words without tokens get the tag O.

    In addition to the task's metrics: `argmax_entity_f1`, of the best tag of each word by itself, and for plain classes
    `unknown_accuracy`, on the words that the training set lacks.
    """
    test_sentences, train_sentences = sentences_of(rows, facts), sentences_of(train, facts)
    gold = [each.tags for each in test_sentences]
    best, sequence = ([collect_tags(each, rows, predicted, facts, way) for each in test_sentences] for way in (0, 1))
    known = {word for each in train_sentences for word in each.words}

    def metrics(predicted: Tags) -> dict[str, float]:
        scores = tag_metrics(facts, gold, predicted)
        if not _has_entities(facts):
            unknown = [[word not in known for word in sentence.words] for sentence in test_sentences]
            sides = zip(gold, predicted, unknown, strict=True)
            triples = [triple for sentence in sides for triple in zip(*sentence, strict=True)]
            matches = [gold_tag == predicted_tag for gold_tag, predicted_tag, is_unknown in triples if is_unknown]
            scores["unknown_accuracy"] = sum(matches) / max(1, len(matches))
        return scores

    scores = metrics(sequence)
    tags_of_baselines = tag_baselines(facts, train_sentences, test_sentences)
    baselines = {name: metrics(tags) for name, tags in tags_of_baselines.items()}
    if _has_entities(facts):
        scores["argmax_entity_f1"] = tag_metrics(facts, gold, best)["entity_f1"]
        baselines = {name: {**own, "argmax_entity_f1": own["entity_f1"]} for name, own in baselines.items()}
    return Scored(sum(map(len, gold)), scores, baselines)


def collect_tags(
    sentence: Sentence, rows: Rows, predicted: Mapping[int, list[list[int]]], facts: TaskFacts, way: int
) -> list[str]:
    """Return the predicted tags of a sentence, over its windows; `way` 0: the best of each word, 1: the sequence."""
    tags = [_NONE] * len(sentence.words)
    for row in sentence.rows:
        positions = rows.columns["tag_positions"][row].astype(int)
        words = rows.columns["word_numbers"][row][positions].tolist()
        for word, tag in zip(words, predicted[row][way], strict=True):
            tags[word] = facts.labels[tag]
    return tags
