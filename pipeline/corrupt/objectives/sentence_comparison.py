"""Sentence comparison: positive pairs for contrastive learning with in-batch negatives (SimCSE)."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from clozeline.arrays import Int64, UInt64
from clozeline.columns import IDS, Feature, Role
from clozeline.configuration.config import config_class
from clozeline.pipeline.corrupt.objectives import Objective, RandomKeys
from clozeline.pipeline.corrupt.objectives._choice import PossibleChoices
from clozeline.pipeline.group.groupings import MinimumRow
from clozeline.pipeline.kernels.ragged import add_special_tokens
from clozeline.pipeline.kernels.sampling import offsets_of
from clozeline.pipeline.rows import Example, ExampleBatch, Ragged, Sample, SampleBatch, segments
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.seeding import LABELS, below, random_bits


class SentenceComparison(Objective):
    """Positive pairs for contrastive learning, as in SimCSE (arXiv 2104.08821).

    With `mode: adjacent` a pair is two adjacent sentences, each truncated to fit; every adjacent
    pair of the row is equally likely. With `mode: same` it is the row twice, and dropout makes the
    two differ. No label is stored. Features: `input_ids` and `input_ids_b`, each `[CLS] x [SEP]`.

    Example (adjacent):
        x   It is raining . | I need an umbrella .
        a   [CLS] It is raining . [SEP]
        b   [CLS] I need an umbrella . [SEP]
    """

    min_redrawn_share = 0.75  # two adjacent sentences of eight are one of 7 choices
    architectures = ("encoder",)
    heads = ("similarity",)

    @config_class
    class Options:
        mode: Literal["adjacent", "same"] = "adjacent"
        """How a positive pair is made: two adjacent sentences, or the same text twice."""
        max_length: Annotated[int, Field(ge=3)] = 64
        """Most tokens in each text, [CLS] and [SEP] included."""

    options: Options

    def __init__(self, options: Options, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        self.first_token, self.last_token = self.id_of("cls"), self.id_of("sep")
        self._limit = options.max_length - 2
        self.grouping = self.make_grouping(
            "document", self._limit if options.mode == "same" else 2 * self._limit
        )
        self.choices = (
            PossibleChoices("[1]", unit="sentence") if options.mode == "adjacent" else None
        )
        self.minimum = (
            MinimumRow(tokens=2, sentences=2) if options.mode == "adjacent" else MinimumRow()
        )

        self.features = (
            Feature("input_ids", "ids", IDS, "first text, with special tokens"),
            Feature(
                "input_ids_b",
                "ids",
                Role("ids", head="similarity"),
                "second text, with special tokens",
            ),
        )

    def corrupt_rows(self, samples: SampleBatch, random_keys: RandomKeys) -> Mapping[str, Ragged]:
        ids = samples.columns["ids"]

        if self.options.mode == "adjacent":
            starts, lengths = self._adjacent(samples, random_keys.for_label(self.label))
        else:
            starts = np.zeros((2, len(ids)), np.int64)
            lengths = np.stack((ids.lengths, ids.lengths))

        sides = [
            Ragged(
                segments(ids.values, ids.offsets[:-1] + starts[side], lengths[side]),
                offsets_of(lengths[side]),
            )
            for side in (0, 1)
        ]

        rows = (add_special_tokens(side, self.first_token, self.last_token) for side in sides)
        return dict(zip(("input_ids", "input_ids_b"), rows, strict=True))

    def _adjacent(self, samples: SampleBatch, keys: UInt64) -> tuple[Int64, Int64]:
        starts = samples.columns["sentence_starts"]
        ends = samples.columns["ids"].lengths
        drawn = random_bits(keys, LABELS, 1)[:, 0] >> np.uint64(32)
        first = starts.offsets[:-1] + below(drawn, (starts.lengths - 1).astype(np.uint64))
        if self.chosen is not None:
            first[:] = self.chosen.number(1, len(starts.values) - 1, "the first sentence") - 1
        # starts of the first and second sentence, and the end of the second
        values = np.append(starts.values.astype(np.int64), 0)
        third = np.where(
            first + 2 < starts.offsets[1:], values[np.minimum(first + 2, len(starts.values))], ends
        )
        begins = np.stack((values[first], values[first + 1]))
        lengths = np.stack((values[first + 1] - values[first], third - values[first + 1]))
        return begins, np.minimum(lengths, self._limit)

    def _restore(self, example: Example) -> NDArray[np.generic]:
        """Return `[CLS] a [SEP] b [SEP]` for adjacent sentences, or the row for the same text."""
        first = example["input_ids"]
        second = example["input_ids_b"]
        for side in (first, second):
            if len(side) < 3 or (int(side[0]), int(side[-1])) != (
                self.first_token,
                self.last_token,
            ):
                raise ValueError(f"expected [CLS] text [SEP], got {side.tolist()}")

        if self.options.mode == "adjacent":
            return np.concatenate((first, second[1:]))
        if not np.array_equal(first, second):
            raise ValueError("the two texts differ")
        return first.copy()

    def original(self, sample: Sample, example: Example) -> NDArray[np.generic]:
        """Return the row, or the adjacent sentences of the example (by default the first two)."""
        ids = sample["ids"]
        if self.options.mode != "adjacent":
            return self.add_special_tokens(ids)
        sentences = np.split(ids, sample["sentence_starts"][1:])
        cut = [self.add_special_tokens(sentence[: self._limit]) for sentence in sentences]
        pairs = [np.concatenate((first, second[1:])) for first, second in pairwise(cut)]
        restored = self.restore(example)
        return next((pair for pair in pairs if np.array_equal(pair, restored)), pairs[0])

    def count_unused_tokens(self, samples: SampleBatch, examples: ExampleBatch) -> int:
        """Count the tokens of all other sentences, and truncated tokens."""
        if self.options.mode != "adjacent":
            return 0
        used = sum(len(column.values) - 2 * len(column) for column in examples.columns.values())
        return len(samples.columns["ids"].values) - used
