"""Tag the words of sentences, and score the tags: entity F1 by seqeval, and accuracy."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, TypeAlias

import torch
from torch import Tensor

from clozeline.model.decoding.tags import bio_transitions, viterbi
from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.tasks.readers import Rejected, TaggedWords, TaskItem
from clozeline.pipeline.tasks.rows.tagging import NO_ENTITY, words_with_tags
from clozeline.pipeline.tasks.task_rows import record_of
from clozeline.train.task_heads._task_head import (
    Record,
    TaskHead,
    TaskModel,
    TaskScores,
    finite,
    mean,
    windows_of,
)

Tags: TypeAlias = list[list[str]]
_BEST = 0
_SEQUENCE = 1


@dataclass(frozen=True)
class TaggedSentence:
    """A sentence of a file: its words, the names of their tags, and the rows of its windows."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    rows: tuple[int, ...]


class TaggingTaskHead(TaskHead):
    """Predicts the tags of a row's words: the best tag of each word, and the best sequence.

    The sequence obeys the rules of BIO if tags are BIO; for other tags both are the same.
    """

    unit = "words"

    @property
    def _has_entities(self) -> bool:
        return "entity_f1" in self.metadata.metrics

    def read(
        self, scores: Tensor, tensors: Mapping[str, Tensor], rows: RowBatch
    ) -> Sequence[object]:
        # scores of the tagged words [N, C], split by row; label_index also has blank tokens
        index = tensors["label_index"]
        labels = self.metadata.labels
        start = 0
        chosen: list[int] = []
        for row in range(len(rows)):
            chosen += (words_with_tags(rows, row)[0] + start).tolist()
            start += len(rows.columns["tag_positions"][row])

        index = index[torch.tensor(chosen, dtype=torch.int64)]
        flat = finite(scores.flatten(0, 1)[index])
        counts = torch.bincount(index // scores.shape[1], minlength=len(scores))
        parts = torch.split(flat, counts.tolist())
        if not self._has_entities or any(label[0] in "ES" for label in labels):
            return [[(best := part.argmax(-1).tolist()), best] for part in parts]

        # Viterbi over rows padded to equal length
        padded = torch.nn.utils.rnn.pad_sequence(
            [*parts, flat.new_zeros(1, scores.shape[-1])], batch_first=True
        )
        tags = viterbi(padded[:-1], counts, *bio_transitions(labels))
        return [
            [part.argmax(-1).tolist(), row[:count].tolist()]
            for part, row, count in zip(parts, tags, counts.tolist(), strict=True)
        ]

    def records(
        self, task: TaskModel, rows: RowBatch, predicted: Mapping[int, object]
    ) -> Iterator[tuple[int, Record]]:
        for sentence in self.sentences(rows):
            tags = self._collect(sentence, rows, predicted, _SEQUENCE)
            yield sentence.rows[0], {"words": list(sentence.words), "tags": tags}

    def fields(self) -> dict[str, type]:
        return {"words": list[str], "tags": list[str]}

    def empty(self, item: TaskItem | Rejected) -> Record:
        """Return a tag for every word, as a score counts them."""
        if not isinstance(item, TaggedWords):
            return {}
        return {"words": list(item.words), "tags": [NO_ENTITY] * len(item.words)}

    def gold(self, task: TaskModel, rows: RowBatch) -> dict[int, Record]:
        return {
            sentence.rows[0]: {"gold": list(sentence.tags)} for sentence in self.sentences(rows)
        }

    def error(self, gold: Any, record: Record) -> float:
        """Return the share of wrong words."""
        return mean(tag != guess for tag, guess in zip(gold, record["tags"], strict=True))

    def classes(self, gold: Any, record: Record) -> Iterable[tuple[Sequence[str], Sequence[str]]]:
        for pair in zip(gold, record["tags"], strict=True):
            yield pair[:1], pair[1:]

    def score(
        self, task: TaskModel, train: RowBatch, rows: RowBatch, predicted: Mapping[int, object]
    ) -> TaskScores:
        """Return the scores of all words; words without tokens get the tag O.

        In addition to the task's metrics: for entities `argmax_entity_f1`, with the best tag of
        each word by itself; for other classes `unknown_accuracy`, on words that the training set
        lacks.
        """
        sentences = self.sentences(rows)
        known = self.sentences(train)
        gold = [sentence.tags for sentence in sentences]
        is_known = {word for sentence in known for word in sentence.words}
        is_unknown = [word not in is_known for sentence in sentences for word in sentence.words]

        def metrics(predicted: Tags) -> dict[str, float]:
            scores = self.metrics(gold, predicted)
            if not self._has_entities:
                scores["unknown_accuracy"] = _accuracy(gold, predicted, is_unknown)
            return scores

        best, sequence = (
            [self._collect(sentence, rows, predicted, way) for sentence in sentences]
            for way in (_BEST, _SEQUENCE)
        )
        scores = metrics(sequence)
        baselines = {name: metrics(tags) for name, tags in self.baselines(known, sentences).items()}

        if self._has_entities:
            scores["argmax_entity_f1"] = self.metrics(gold, best)["entity_f1"]
            baselines = {
                name: {**of_baseline, "argmax_entity_f1": of_baseline["entity_f1"]}
                for name, of_baseline in baselines.items()
            }

        return TaskScores(sum(map(len, gold)), scores, baselines)

    def metrics(
        self, gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
    ) -> dict[str, float]:
        """Return the metrics of tags, sentence by sentence.

        `entity_f1` is conlleval's, which reads an inside tag without its begin tag as an entity;
        `strict_entity_f1` counts only well-formed IOB2 entities. Both are computed over all
        sentences at once.
        """
        from seqeval.metrics import f1_score
        from seqeval.scheme import IOB2

        accuracy = _accuracy(gold, predicted)
        if not self._has_entities:
            return {"accuracy": accuracy}
        sides = [list(map(list, gold)), list(map(list, predicted))]
        if not any(tag != NO_ENTITY for side in sides for tags in side for tag in tags):
            return {"entity_f1": 0.0, "strict_entity_f1": 0.0, "accuracy": accuracy}
        return {
            "entity_f1": float(f1_score(*sides, zero_division=0)),
            "strict_entity_f1": float(
                f1_score(*sides, mode="strict", scheme=IOB2, zero_division=0)
            ),
            "accuracy": accuracy,
        }

    def baselines(
        self, train: Sequence[TaggedSentence], sentences: Sequence[TaggedSentence]
    ) -> dict[str, Tags]:
        """Return the tags of each baseline, fitted on the training set.

        `majority` gives every word the most frequent tag of all words. `most_frequent_tag` gives
        each word its most frequent tag, and unknown words that of all words. Of equally frequent
        tags, the first of the task counts.
        """
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for sentence in train:
            for word, tag in zip(sentence.words, sentence.tags, strict=True):
                counts[word][tag] += 1

        order = {label: number for number, label in enumerate(self.metadata.labels)}

        def most_frequent(tags: Counter[str]) -> str:
            return min(tags, key=lambda tag: (-tags[tag], order[tag]))

        overall = most_frequent(sum(counts.values(), Counter()))
        by_word = {word: most_frequent(tags) for word, tags in counts.items()}
        return {
            "majority": [[overall] * len(sentence.words) for sentence in sentences],
            "most_frequent_tag": [
                [by_word.get(word, overall) for word in sentence.words] for sentence in sentences
            ],
        }

    def sentences(self, rows: RowBatch) -> list[TaggedSentence]:
        """Return the sentences of a set, assembled from their windows, in the order of the set."""
        sentences = []
        for order in windows_of(rows):
            records = [record_of(rows, row) for row in order]
            words = tuple(word for record in records for word in record["words"])
            tags = tuple(self.metadata.labels[tag] for record in records for tag in record["tags"])
            sentences.append(TaggedSentence(words, tags, tuple(order)))
        return sentences

    def _collect(
        self, sentence: TaggedSentence, rows: RowBatch, predicted: Mapping[int, Any], way: int
    ) -> list[str]:
        """Return the predicted tags of a sentence, over its windows."""
        tags = [NO_ENTITY] * len(sentence.words)
        for row in sentence.rows:
            _, words = words_with_tags(rows, row)
            for word, tag in zip(words.tolist(), predicted[row][way], strict=True):
                tags[word] = self.metadata.labels[tag]
        return tags


def _accuracy(
    gold: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    chosen: Sequence[bool] | None = None,
) -> float:
    """Return the share of correct words, of all words or of the chosen ones."""
    right = [
        tag == guess
        for sides in zip(gold, predicted, strict=True)
        for tag, guess in zip(*sides, strict=True)
    ]
    return mean(right if chosen is None else list(compress(right, chosen)))
