"""Predict the classes of words from each layer of a frozen model.

The probe is a linear model (Tenney et al. 2019, arXiv 1905.05950).

The words that have several classes in the training set show what a layer knows of the context.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from clozeline.arrays import Int64
from clozeline.errors import ConfigurationError
from clozeline.extensions.tasks.heads.tagging import TaggingTaskHead
from clozeline.extensions.tasks.rows.tagging import words_with_tags
from clozeline.extensions.tasks.task_heads import task_head_of
from clozeline.extensions.tasks.task_run import open_split, set_rows
from clozeline.model.scoring.features import token_vectors
from clozeline.pipeline.rows import RowBatch
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.data.sets.token_ids import refuse_other_ids

_MOST_WORDS: Final = 20_000
"""of the training set, from its beginning"""


@dataclass(frozen=True)
class _Words:
    """Words with their classes, and the tokens of the rows that hold them."""

    texts: list[str]
    classes: Int64
    rows: list[list[int]]
    word_positions: list[tuple[int, int]]
    """row and position of each word's first token"""

    def vectors(self, trained: TrainedModel, layer: int) -> NDArray[np.float32]:
        """Return the vectors of the words in a layer, [words, dim]."""
        by_row = token_vectors(trained.model, self.rows, str(layer))
        return np.stack([by_row[row][position].numpy() for row, position in self.word_positions])


def probe_scores(trained: TrainedModel, task: Path, split: str) -> dict[str, object]:
    """Return the accuracy of each layer on a split of a task of tagged words.

    Next to it stands the accuracy of each word's most frequent class.

    The linear model is fitted on the training split, on standardized vectors of the first tokens of
    words.

    Raises:
        ConfigurationError: the task has no tagged words, another tokenizer, or one class.
    """
    sides = []

    for name in ("train", split):
        shards, metadata = open_split(task, name)
        refuse_other_ids(trained.ids, shards, "probe")
        answer = task_head_of(metadata)
        if not isinstance(answer, TaggingTaskHead):
            raise ConfigurationError(
                f"probe: {shards.path} is a task of {metadata.head}, expected one of tagged words"
            )
        sides.append(_words_of(set_rows(shards), answer, _MOST_WORDS if name == "train" else None))

    train, test = sides

    if len(set(train.classes.tolist())) < 2:
        raise ConfigurationError(
            f"probe: {task / 'train'} has words of one class, expected two or more"
        )

    by_word: dict[str, Counter[int]] = defaultdict(Counter)
    for text, label in zip(train.texts, train.classes.tolist(), strict=True):
        by_word[text][label] += 1
    overall = Counter(train.classes.tolist()).most_common(1)[0][0]
    most_frequent_tags = np.array(
        [by_word[text].most_common(1)[0][0] if text in by_word else overall for text in test.texts]
    )
    ambiguous = np.array([len(by_word.get(text, ())) > 1 for text in test.texts])

    def accuracies(predicted: Int64) -> dict[str, float | None]:
        is_right = predicted == test.classes
        of_ambiguous = float(is_right[ambiguous].mean()) if ambiguous.any() else None
        return {"accuracy": float(is_right.mean()), "ambiguous_accuracy": of_ambiguous}

    layers = []

    for layer in range(trained.model.config.layers + 1):
        probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        probe.fit(train.vectors(trained, layer), train.classes)
        layers.append(accuracies(probe.predict(test.vectors(trained, layer))))

    return {
        "probe": "layers",
        "task": metadata.name,
        "split": split,
        "train_words": len(train.texts),
        "words": len(test.texts),
        "ambiguous_words": int(ambiguous.sum()),
        "layers": layers,
        "baselines": {"most_frequent_tag": accuracies(most_frequent_tags)},
    }


def probe_lines(scores: Mapping[str, Any]) -> Iterator[str]:
    """Yield readable lines."""
    yield (
        f"{scores['task']} {scores['split']} by layer, step {scores['step']:,}: "
        f"{scores['words']:,} words, {scores['ambiguous_words']:,} ambiguous; probes learned from "
        f"{scores['train_words']:,} words"
    )

    yield f"  {'layer':<28}{'all words':>10}{'ambiguous':>11}"
    layer_scores = [
        ("0 (embeddings)" if number == 0 else str(number), accuracy)
        for number, accuracy in enumerate(scores["layers"])
    ]
    for name, accuracy in [
        *layer_scores,
        *((f"baseline {name}", accuracy) for name, accuracy in scores["baselines"].items()),
    ]:
        shown = (
            f"{100 * accuracy[key]:.1f} %" if accuracy[key] is not None else "-" for key in accuracy
        )
        yield f"  {name:<28}{next(shown):>10}{next(shown):>11}"


def _words_of(rows: RowBatch, answer: TaggingTaskHead, most: int | None) -> _Words:
    texts: list[str] = []
    classes: list[int] = []
    word_positions: list[tuple[int, int]] = []

    for sentence in answer.sentences(rows):
        for row in sentence.rows:
            tagged, words = words_with_tags(rows, row)
            positions = rows.columns["tag_positions"][row][tagged]
            texts += [sentence.words[word] for word in words.tolist()]
            classes += rows.columns["tags"][row][tagged].tolist()
            word_positions += [(row, position) for position in positions.tolist()]
        if most is not None and len(texts) >= most:
            break

    used: Sequence[int] = sorted({row for row, _ in word_positions})
    renumbered = {row: number for number, row in enumerate(used)}
    tokens = [rows.columns["input_ids"][row].tolist() for row in used]
    return _Words(
        texts,
        np.array(classes),
        tokens,
        [(renumbered[row], position) for row, position in word_positions],
    )
