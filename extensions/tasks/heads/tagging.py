"""Classify labeled positions, such as words at their first token (arXiv 1810.04805 §5.3)."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from operator import eq
from typing import Any, ClassVar, Final

import torch
from torch import Tensor, nn

from clozeline.columns import LABEL_IDS, LABEL_INDEX
from clozeline.configuration.config import config_class
from clozeline.extensions.tasks.heads._tags import bio_transitions, viterbi
from clozeline.extensions.tasks.readers import Rejected, TaggedWords, TaskItem
from clozeline.extensions.tasks.rows.tagging import NO_ENTITY, words_with_tags
from clozeline.extensions.tasks.sets.task_rows import record_of
from clozeline.extensions.tasks.task_heads._task_head import (
    Judged,
    Metric,
    Record,
    TaskHead,
    TaskModel,
    finite,
    mean,
    windows_of,
)
from clozeline.model.configuration.head import (
    ClassifierOptions,
    ClassOptions,
    LabelOptions,
    label_keys,
)
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.heads._head import LabelHead
from clozeline.model.layers.pooling import Classifier
from clozeline.model.loss import gather_labels
from clozeline.pipeline.rows import RowBatch


class TaggingHead(LabelHead):
    """Cross entropy of the class at each labeled position; `label_ids` are class indices.

    Positions without a label, such as the other tokens of a word, have no loss.
    """

    target: ClassVar = "tagging"
    reads: ClassVar = (LABEL_INDEX, replace(LABEL_IDS, below="classes"))

    @config_class
    class Options(ClassifierOptions, ClassOptions, LabelOptions):
        """Keys of the tagging head."""

        def __post_init__(self) -> None:
            ClassOptions.__post_init__(self)
            ClassifierOptions.__post_init__(self)

    figures: ClassVar = {"accuracy": "higher"}
    class_ending: ClassVar = "ForTokenClassification"
    options: Options

    @classmethod
    def keys_of_class(
        cls, read_labels: Callable[[], tuple[str, ...]], problem: str | None
    ) -> dict[str, Any] | None:
        return label_keys(read_labels())

    def __init__(self, config: ModelConfig, tokens: nn.Embedding, vocab_size: int) -> None:
        super().__init__(config)
        self.classifier = Classifier(
            config, self.options, self.options.require_classes(self.key(), 2)
        )

    def logits(self, hidden: Tensor) -> Tensor:
        return self.classifier(hidden)

    def metrics(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the number of correct labels, weighted as in the loss."""
        labels = gather_labels(hidden, tensors)
        correct = self.logits(labels.states).argmax(-1) == labels.ids
        return {"accuracy": (correct * labels.in_loss).sum()}


_BEST = 0
_SEQUENCE = 1


@dataclass(frozen=True)
class TaggedSentence:
    """A sentence of a file: its words, the names of their tags, and the rows of its windows."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True)
class JudgedTags(Judged):
    """Tags of sentences."""

    unknown: Sequence[bool] = ()
    """for each word, whether the training set lacks it"""

    @property
    def count(self) -> int:
        return sum(map(len, self.gold))


class TaggingTaskHead(TaskHead):
    """Predicts the tags of a row's words: the best tag of each word, and the best sequence.

    The sequence obeys the rules of BIO if tags are BIO; for other tags both are the same.
    """

    of_head = "tagging"
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

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """The metrics of all words; words without tokens get the tag O.

        `entity_f1` is conlleval's, which reads an inside tag without its begin tag as an entity;
        `strict_entity_f1` counts only well-formed IOB2 entities, `argmax_entity_f1` takes the best
        tag of each word by itself, and `unknown_accuracy` is on words that the training set lacks.
        """
        return _ENTITY_METRICS if self._has_entities else _WORD_METRICS

    def further_metrics(self, judged: Judged) -> tuple[str, ...]:
        return ("argmax_entity_f1",) if self._has_entities else ("unknown_accuracy",)

    def judge(
        self, task: TaskModel, train: RowBatch, rows: RowBatch, predicted: Mapping[int, Any]
    ) -> Judged:
        sentences = self.sentences(rows)
        known = {word for sentence in self.sentences(train) for word in sentence.words}
        best, sequence = (
            [self._collect(sentence, rows, predicted, way) for sentence in sentences]
            for way in (_BEST, _SEQUENCE)
        )
        return JudgedTags(
            self.metadata,
            [list(sentence.tags) for sentence in sentences],
            sequence,
            best,
            unknown=[word not in known for sentence in sentences for word in sentence.words],
        )

    def baselines(
        self, task: TaskModel, train: RowBatch, rows: RowBatch
    ) -> dict[str, list[list[str]]]:
        """Return the tags of each baseline, fitted on the training set.

        `majority` gives every word the most frequent tag of all words. `most_frequent_tag` gives
        each word its most frequent tag, and unknown words that of all words. Of equally frequent
        tags, the first of the task counts.
        """
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for sentence in self.sentences(train):
            for word, tag in zip(sentence.words, sentence.tags, strict=True):
                counts[word][tag] += 1

        order = {label: number for number, label in enumerate(self.metadata.labels)}

        def most_frequent(tags: Counter[str]) -> str:
            return min(tags, key=lambda tag: (-tags[tag], order[tag]))

        sentences = self.sentences(rows)
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


def _accuracy(judged: JudgedTags) -> float:
    return mean(_right_words(judged))


def _unknown_accuracy(judged: JudgedTags) -> float:
    return mean(compress(_right_words(judged), judged.unknown))


def _right_words(judged: Judged) -> Iterator[bool]:
    for tags, guesses in zip(judged.gold, judged.guesses, strict=True):
        yield from map(eq, tags, guesses)


def _entity_f1(judged: Judged, **keys: Any) -> float:
    from seqeval.metrics import f1_score

    sides = [judged.gold, judged.guesses]
    if not any(tag != NO_ENTITY for side in sides for tags in side for tag in tags):
        return 0.0
    return float(f1_score(*sides, zero_division=0, **keys))


def _strict_entity_f1(judged: Judged) -> float:
    from seqeval.scheme import IOB2

    return _entity_f1(judged, mode="strict", scheme=IOB2)


def _argmax_entity_f1(judged: Judged) -> float:
    best = judged.guesses if judged.predictions is None else judged.predictions
    return _entity_f1(replace(judged, guesses=best))


_WORD_METRICS: Final = {
    "accuracy": Metric(_accuracy),
    "unknown_accuracy": Metric(_unknown_accuracy),
}
_ENTITY_METRICS: Final = {
    **_WORD_METRICS,
    "entity_f1": Metric(_entity_f1),
    "strict_entity_f1": Metric(_strict_entity_f1),
    "argmax_entity_f1": Metric(_argmax_entity_f1),
}
