"""Evaluate on a held-out set in one exact pass: losses, unigram entropy, sample predictions."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from clozeline.columns import IGNORED
from clozeline.model.configuration.capabilities import AVERAGE
from clozeline.model.generation.decoding import Decoding
from clozeline.model.generation.generate import generate
from clozeline.model.heads import Head
from clozeline.reporting import Reporting
from clozeline.train.checkpoint.stored_checkpoint import WEIGHT
from clozeline.train.checkpoint.zero_partitions import fragments, states_of
from clozeline.train.configuration.data import DataConfig
from clozeline.train.data.global_batch import MicroBatch, next_global_batch, shares
from clozeline.train.data.sets.datasets import Datasets, open_stream
from clozeline.train.data.stream.stream import Stream
from clozeline.train.distributed.process_group import World
from clozeline.train.distributed.stopping import StopRequest
from clozeline.train.distributed.watchdog import Watchdog
from clozeline.train.engine import Engine, add_sums

_REPORTS: Final = Reporting()

# guesses: recorded rows, tokens of a row, and labels of a row
_MAX_GUESSED_ROWS: Final = 3
_MAX_SHOWN_TOKENS: Final = 96
_MAX_SHOWN_LABELS: Final = 48
# guesses of a decoder: tokens of the prompt, and of its continuation
_PROMPT_TOKENS: Final = 16
_CONTINUED_TOKENS: Final = 32
_TOKEN_HEADS: Final = {"encoder": "masked_lm", "decoder": "lm", "encoder_decoder": "lm"}
_GUESS_FORMS: Final = {"encoder": "masked", "decoder": "continued", "encoder_decoder": "target"}

Guesses = list[dict[str, Any]]
"""predictions of a row, as `sample_guesses` returns them"""


class Levels(NamedTuple):
    """What a model that reads no input scores, with weights and divisor of the loss."""

    entropy: float
    """loss of a model that knows only how frequent each label is, in nats"""
    majority: float
    """accuracy of always predicting the most frequent label"""


@dataclass
class HeldoutSet:
    """A held-out set, opened for evaluations."""

    name: str
    stream: Stream
    batches: int
    """global batches per evaluation"""
    levels: dict[str, Levels] | None = None
    """head → levels of its labels, if they are tokens or classes, after the first evaluation"""
    guesses: Guesses = field(default_factory=list)
    """predictions on the first rows, after an evaluation; on rank 0"""


@dataclass(frozen=True)
class Evaluation:
    """Results on one held-out set, over all ranks."""

    loss: float
    """weighted sum of the heads' mean losses, in nats"""
    total: float
    """`loss` with the weighted losses of distillation that the set can compute, and auxiliary
    ones"""
    losses: dict[str, float]
    """head → mean loss over all its labels"""
    figures: dict[str, float]
    """"head/name" → further metrics of a head, per label; `distil/name` → distillation losses"""
    labels: int
    """number of predictions in the means, in `unit`s; rows for heads that average over rows"""
    unigram_entropy: float
    """weighted sum of `entropies`, the loss of a unigram model in nats; 0 where a head with labels
    has none"""
    entropies: dict[str, float]
    """head → entropy in nats of its labels, if they are tokens or classes"""
    majorities: dict[str, float] = field(default_factory=dict)
    """head → share of the most frequent label, the accuracy of always predicting it"""
    unit: str = "labels"
    """`labels`, `tokens` or `rows`; `predictions` if heads differ"""


@dataclass(frozen=True)
class _OnePass:
    """One pass over a held-out set, as a `BatchSource`."""

    steps: Iterator[Sequence[MicroBatch]]

    def next_step(self) -> Sequence[MicroBatch]:
        return next(self.steps)


def open_heldout(
    data: DataConfig,
    max_rows: int | None,
    datasets: Datasets,
    world: World,
    resources: ExitStack,
) -> list[HeldoutSet]:
    """Open the held-out sets; `resources` closes them."""
    opened = []
    for name, shards in datasets.heldout.items():
        stream = open_stream(data, [datasets.heldout_phase(name)], world.rank, world.size)
        batches = batches_of_pass(len(shards), data.global_batch, max_rows)
        opened.append(HeldoutSet(name, resources.enter_context(stream), batches))
    return opened


def batches_of_pass(rows: int, global_batch: int, max_rows: int | None) -> int:
    """Return the number of global batches of an evaluation: 45 rows in batches of 8 are 6."""
    read = rows if max_rows is None else min(rows, max_rows)
    return -(-read // global_batch)


def evaluate(
    engine: Engine, heldout: HeldoutSet, watchdog: Watchdog, stop: StopRequest
) -> Evaluation | None:
    """Evaluate a set once without dropout, with averaged weights if there are any.

    Return None if a rank was asked to stop: all ranks then stop at the same batch.
    """
    engine.train(False)
    source = _OnePass(heldout.stream.one_pass(engine.config.data.global_batch, heldout.batches))
    try:
        with torch.no_grad(), averages_as_weights(engine):
            return _run_pass(engine, heldout, source, watchdog, stop)
    finally:
        engine.train(True)


def has_finite_loss(engine: Engine, stream: Stream, most: int) -> bool:
    """Return whether one of the first `most` batches of a stream has a finite loss.

    The stream does not move. A collective call.
    """
    steps = stream.one_pass(engine.config.data.global_batch, most)
    total = math.nan
    engine.train(False)
    try:
        # compiled layers would be compiled again for other shapes; the stance loads the compiler
        is_compiled = engine.config.compile is True
        eager = torch.compiler.set_stance("force_eager") if is_compiled else nullcontext()
        with torch.no_grad(), eager:
            while not math.isfinite(total):
                with engine.world.sharing_errors():
                    batches = next(steps, [])
                if not batches:
                    return False
                losses = [engine.losses(engine.inputs(batch, step=0)) for batch in batches]
                totals = [float(loss.total) for each in losses for loss in each.values()]
                (total,) = engine.world.sum_over_ranks([sum(totals)])
    finally:
        engine.train(True)
    return True


@contextmanager
def averages_as_weights(engine: Engine) -> Iterator[None]:
    """Swap in the averaged weights, if there are any, inside the block; then swap back."""
    exchanged = _exchange_averages(engine)
    try:
        yield
    finally:
        if exchanged:
            _exchange_averages(engine)


@torch.no_grad()
def _exchange_averages(engine: Engine) -> bool:
    """Exchange weights and averages; return whether there are averages."""
    if not any(AVERAGE in states_of(engine, flat) for flat, _ in engine.zero.flats()):
        return False
    for piece in fragments(engine, owned=False):
        if AVERAGE in piece.tensors:
            weight = piece.tensors[WEIGHT]
            average = piece.tensors[AVERAGE]
            former = weight.clone()
            weight.copy_(average)
            average.copy_(former)
    engine.zero.refresh_model()
    return True


def _run_pass(
    engine: Engine, heldout: HeldoutSet, source: _OnePass, watchdog: Watchdog, stop: StopRequest
) -> Evaluation | None:
    """Evaluate a set with the current weights; None if a rank was asked to stop."""
    # accumulate losses, metrics and counts in float64 over this rank's batches
    heads = engine.config.model.head_weights
    divisors = engine.divisors
    sums = {
        name: torch.zeros((), dtype=torch.float64, device=engine.world.device) for name in divisors
    }
    figures: dict[str, Tensor] = {}
    counts = dict.fromkeys(divisors, 0.0)
    predictions = 0
    seen: dict[str, Counter[tuple[int, float]]] = {
        head: Counter() for head in heads if heldout.levels is None
    }

    for number in range(heldout.batches):
        batch = next_global_batch(source, divisors, engine.world, stop)
        if batch.stop:
            return None
        for micro_batch in batch.micro_batches:
            add_sums(engine.losses(engine.inputs(micro_batch, step=0)), sums, figures)
            predictions += sum(
                count_predictions(engine.heads[head], micro_batch.tensors) for head in heads
            )
            for head, counter in seen.items():
                counter.update(weighed_classes(engine.heads[head], micro_batch.tensors))

        for name in divisors:
            counts[name] += batch.counts[name]
        if number == 0 and engine.world.rank == 0:
            with _REPORTS("guesses on held-out rows"):
                heldout.guesses = sample_guesses(engine, batch.micro_batches[0].tensors)

        watchdog.beat()

    # sum over the ranks, and divide by the counts
    named = {**sums, **figures}
    *totals, labels = engine.world.sum_over_ranks([*map(float, named.values()), predictions])

    # levels of the labels, in the first evaluation
    if heldout.levels is None:
        by_rank = engine.world.gather(seen)
        merged = {head: sum((each[head] for each in by_rank), Counter()) for head in seen}
        heldout.levels = {
            head: levels_of(found, counts[head]) for head, found in merged.items() if found
        }

    # divide by the counts
    levels = heldout.levels
    means = shares(dict(zip(named, totals, strict=True)), counts)
    figures |= {name: sums[name] for name in divisors if name not in heads and counts[name]}
    entropy = 0.0
    if all(head in levels for head in heads if counts[head]):
        entropy = sum(heads[head] * level.entropy for head, level in levels.items())
    return Evaluation(
        loss=sum(weight * means[head] for head, weight in heads.items()),
        total=engine.total_loss(means),
        losses={head: means[head] for head in heads},
        figures={name: means[name] for name in figures},
        labels=int(labels),
        unigram_entropy=entropy,
        entropies={head: level.entropy for head, level in levels.items()},
        majorities={head: level.majority for head, level in levels.items()},
        unit=unit_of([engine.heads[head] for head in heads]),
    )


def unit_of(heads: Iterable[Head]) -> str:
    """Return what has equal weight in the mean losses: labels, tokens or rows, else predictions."""
    units = {"row" if head.options.normalize == "row" else head.unit for head in heads}
    return f"{units.pop()}s" if len(units) == 1 else "predictions"


def count_predictions(head: Head, tensors: Mapping[str, Tensor]) -> int:
    """Return the number of predictions of a batch, in the unit of the head's mean loss."""
    weights = head.labels(tensors)[1]
    is_of_labels = len(weights) and unit_of([head]) == "labels"
    return int((weights != 0).sum()) if is_of_labels else head.count(tensors)


def weighed_classes(head: Head, tensors: Mapping[str, Tensor]) -> Iterator[tuple[int, float]]:
    """Yield the class and the weight of each label that has a loss."""
    classes, weights = (each.tolist() for each in head.labels(tensors))
    return ((label, weight) for label, weight in zip(classes, weights, strict=True) if weight)


def levels_of(labels: Mapping[tuple[int, float], int], divisor: float) -> Levels:
    """Return the levels of labels, from the number of labels by class and weight.

    Example: the classes 0, 0, 1, 2, each of weight 1 and counted as 4, have the entropy 1.0397 and
    the majority 0.5.
    """
    weights: defaultdict[int, float] = defaultdict(float)
    for (label, weight), count in sorted(labels.items()):
        weights[label] += weight * count
    total = sum(weights.values())
    entropy = sum(weight * math.log(total / weight) for weight in weights.values())
    return Levels(entropy / divisor, max(weights.values()) / divisor)


@torch.no_grad()
def sample_guesses(engine: Engine, batch: Mapping[str, Tensor]) -> Guesses:
    """Return predictions for the first labeled rows of a micro-batch.

    This takes one more forward pass of this rank alone. The result is empty for a model that
    predicts no tokens, and at ZeRO stage 3, where a rank has a part of the weights.

    Returns:
        Per row: `tokens` (ids of the input, at most 96), `form`, and `labels`: at most 48 times
        [position, label, guess, probability of the guess]. For a decoder also `continued`: its
        greedy continuation of the first `prompt` tokens. The form says where labels belong:
        `masked` at their positions, `continued` after the first position, `target` in another
        sequence.
    """
    # choose the head, and compute hidden states
    model = engine.model
    architecture = engine.model.family.architecture
    head = _TOKEN_HEADS[architecture]
    if head not in model.heads or engine.config.zero.stage == 3 or "left_padding" in batch:
        return []
    tensors = {name: tensor.to(engine.world.device) for name, tensor in batch.items()}
    hidden, inputs = model.views(tensors)[head]
    rows = inputs["label_index"] // hidden.shape[1]
    labeled = (inputs["label_ids"] != IGNORED) & (tensors["row_weight"][rows] != 0)

    # predict the labels of each row
    row_guesses: Guesses = []

    for row in sorted(set(rows[labeled].tolist()))[:_MAX_GUESSED_ROWS]:
        tokens = tensors["input_ids"][row, : int(tensors["lengths"][row])][
            :_MAX_SHOWN_TOKENS
        ].tolist()
        is_row_label = labeled & (rows == row)
        if architecture == "encoder":
            is_row_label &= inputs["label_index"] % hidden.shape[1] < _MAX_SHOWN_TOKENS
        chosen_labels = is_row_label.nonzero()[:_MAX_SHOWN_LABELS, 0]
        index = inputs["label_index"][chosen_labels]
        logits = model.heads[head].logits(hidden.flatten(0, 1)[index])[:, : model.vocab_size]
        probabilities, guesses = logits.float().softmax(-1).max(-1)
        positions = (index % hidden.shape[1]).tolist()
        gold = inputs["label_ids"][chosen_labels].tolist()
        columns = (positions, gold, guesses.tolist(), probabilities.tolist())
        labels = list(map(list, zip(*columns, strict=True)))
        row_guesses.append({"tokens": tokens, "form": _GUESS_FORMS[architecture], "labels": labels})

        # continue its first tokens
        if architecture == "decoder":
            prompt = tokens[:_PROMPT_TOKENS]
            greedy = generate(model, [prompt], Decoding(max_tokens=_CONTINUED_TOKENS))
            row_guesses[-1] |= {"prompt": len(prompt), "continued": greedy[0].ids}

    return row_guesses
