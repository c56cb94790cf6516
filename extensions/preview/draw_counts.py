"""Corrupt one text many times, and count what becomes of its tokens beside what is expected."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from clozeline.arrays import Bool
from clozeline.errors import ConfigurationError
from clozeline.extensions.preview.corrupted_text import FOLLOWS, CorruptedText
from clozeline.pipeline.kernels.sampling import rows_of
from clozeline.pipeline.rows import ExampleBatch, Ragged, RowBatch

MOST_DRAWS: Final = 65_536
_MOST_OUTCOMES: Final = 24


@dataclass(frozen=True, slots=True)
class DrawCount:
    """How often something happened in all draws, of how many, and the share that is expected.

    `error` is the standard error of the share, from how much the draws differ; None: it is fixed.
    """

    name: str
    count: int
    total: int
    expected: float | None = None
    error: float | None = None

    @property
    def share(self) -> float:
        """Return the measured share, or mean."""
        return self.count / self.total if self.total else 0.0


def count_draws(found: CorruptedText, draws: int, seed: int = 1) -> list[DrawCount]:
    """Return counts of the draws 0 to `draws` - 1 of a text.

    Raises:
        ConfigurationError: the corruption is chosen, or the objective has nothing to count.
    """
    objective = found.objective
    if objective.chosen is not None:
        raise ConfigurationError(
            "draws: a chosen corruption is always the same; leave out `choose`, and give a "
            "pair of sentences a text of two"
        )
    sample = RowBatch(
        {name: np.array([value]) for name, value in found.sample.fixed.items()},
        {name: Ragged.from_lists([one], one.dtype) for name, one in found.sample.columns.items()},
    )
    repeated = sample.take(np.zeros(draws, np.intp))
    examples, _ = objective.corrupt(repeated, np.arange(draws).astype(np.uint16), seed)
    tokens = len(found.sample["ids"]) * draws
    counts = [
        *_role_counts(found, examples),
        *_span_counts(found, examples, tokens),
        *_outcome_counts(found, examples),
    ]
    if not counts:
        raise ConfigurationError(f"draws: '{objective.label}' draws nothing that can be counted")
    return counts


def _share(name: str, happened: Bool, row: Any, draws: int, expected: Any) -> DrawCount:
    """Return the count of what happened; `row` is the draw of each of its chances."""
    # draws are independent, chances within a draw may not be: spans become [MASK] as one
    difference = np.bincount(row, happened - np.asarray(expected), minlength=draws)
    error = math.sqrt(float(np.square(difference).sum())) / max(1, len(row))
    mean = float(np.mean(np.broadcast_to(expected, happened.shape)))
    return DrawCount(name, int(happened.sum()), len(happened), mean, error)


def _role_counts(found: CorruptedText, examples: ExampleBatch) -> Iterator[DrawCount]:
    """Yield how many tokens are labels, and how many labels are masked, replaced and kept."""
    shares = found.objective.shares
    if "label_positions" not in examples.columns or "masked" not in shares:
        return
    vocabulary = found.objective.vocabulary
    positions, labels = examples.columns["label_positions"], examples.columns["label_ids"]
    rows = rows_of(positions)
    inputs = examples.columns["input_ids"]
    shown = inputs.values[positions.values + inputs.offsets[rows]]
    draws = len(examples)
    special = 3 if "segment_starts" in examples.columns else 2
    tokens = len(inputs.values) - special * draws
    yield DrawCount("tokens with a label", len(labels.values), tokens, shares.get("labels"))

    # a random token may be the original one
    replaceable = vocabulary.replaceable
    same = np.isin(labels.values, replaceable) / max(1, len(replaceable))
    masked = shown == vocabulary.specials["mask"]
    kept = shown == labels.values
    random = shares["random"]
    yield _share("masked", masked, rows, draws, shares["masked"])
    yield _share("replaced", ~masked & ~kept, rows, draws, random * (1 - same))
    keep = 1 - shares["masked"] - random
    yield _share("kept", kept & ~masked, rows, draws, keep + random * same)


def _span_counts(found: CorruptedText, examples: ExampleBatch, tokens: int) -> Iterator[DrawCount]:
    """Yield the share of tokens in spans, and the mean length of spans."""
    objective = found.objective
    if "span_lengths" in examples.columns:
        lengths = examples.columns["span_lengths"]
        spans = lengths.lengths
        sums = np.bincount(rows_of(lengths), lengths.values, minlength=len(examples))
    elif objective.form.has_sentinels and "target_ids" in examples.columns:
        inputs, targets = (examples.columns[name] for name in ("input_ids", "target_ids"))
        is_sentinel = np.isin(inputs.values, objective.vocabulary.sentinels)
        is_text = ~objective.vocabulary.special[targets.values]
        spans = np.bincount(rows_of(inputs), is_sentinel, minlength=len(examples))
        sums = np.bincount(rows_of(targets), is_text, minlength=len(examples))
    else:
        return
    total, count = int(sums.sum()), int(spans.sum())
    yield DrawCount("tokens in spans", total, tokens, objective.shares.get("spans"))
    mean = total / count
    error = math.sqrt(float(np.square(sums - mean * spans).sum())) / count
    expected = objective.shares.get("length")
    yield DrawCount("mean length of a span", total, count, expected, error)


def _outcome_counts(found: CorruptedText, examples: ExampleBatch) -> Iterator[DrawCount]:
    """Yield how often each answer, start, end of a prefix, or order was drawn."""
    columns = examples.columns
    draws = len(examples)
    rows = np.arange(draws)
    if "sentence_label" in columns:
        yield _share(f"{FOLLOWS}: yes", columns["sentence_label"].values == 0, rows, draws, 0.5)

    tokens = len(found.sample["ids"])
    sentences = len(found.sample["sentence_starts"])
    is_even = found.objective.draws_evenly
    possible = {
        "rotation": ("starts with token", 1 / max(1, tokens - 1)),
        "prefix_length": ("ends the prefix: position", 1 / max(1, tokens - 1) if is_even else None),
        "sentence_order": (
            "order of sentences",
            1 / max(1, math.factorial(min(sentences, 20)) - 1) if is_even else None,
        ),
    }
    for name, (title, expected) in possible.items():
        if name not in columns:
            continue
        column = columns[name]
        first = 0 if name == "prefix_length" else 1
        drawn = [tuple((column[int(row)].astype(int) + first).tolist()) for row in rows]
        for outcome in sorted(set(drawn))[:_MOST_OUTCOMES]:
            text = f"{title} {' '.join(map(str, outcome))}"
            happened = np.array([one == outcome for one in drawn])
            if expected is None:
                yield DrawCount(text, int(happened.sum()), draws)
            else:
                yield _share(text, happened, rows, draws, expected)
