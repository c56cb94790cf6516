"""Evaluate on a held-out set in one exact pass: losses, the unigram entropy of its labels, and sampled predictions."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor

from clozeline.columns import IGNORED
from clozeline.model.generation.decoding import Decoding
from clozeline.model.generation.generate import generate
from clozeline.model.heads import Head
from clozeline.reporting import Reporting
from clozeline.train.checkpoint.stored_checkpoint import WEIGHT
from clozeline.train.checkpoint.zero_partitions import fragments, states_of
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.global_batch import MicroBatch, next_global_batch, shares
from clozeline.train.data.sets.datasets import Datasets, open_stream
from clozeline.train.data.stream.stream import Stream
from clozeline.train.distributed.process_group import World
from clozeline.train.distributed.stopping import StopRequest
from clozeline.train.distributed.watchdog import Watchdog
from clozeline.train.engine import Engine, add_sums
from clozeline.train.optim.optimizers import AVERAGE

_REPORTS: Final = Reporting()
# Rows, tokens of a row, and labels of it that are recorded.
_ROWS: Final = 3
_TOKENS: Final = 96
_LABELS: Final = 48
# Tokens of a row that a decoder continues, and of its continuation.
_PROMPT: Final = 16
_CONTINUATION: Final = 32
_HEADS: Final = {"encoder": "masked_lm", "decoder": "lm", "encoder_decoder": "lm"}
_FORMS: Final = {"encoder": "masked", "decoder": "continued", "encoder_decoder": "target"}

Guesses = list[dict[str, Any]]
"""predictions of a row, as `sample_guesses` returns them"""


@dataclass
class HeldoutSet:
    """A held-out set, opened for evaluations."""

    name: str
    stream: Stream
    batches: int
    """global batches per evaluation"""
    entropies: dict[str, float] | None = field(default=None)
    """head → unigram entropy of its labels in nats, after the first evaluation"""
    majorities: dict[str, float] = field(default_factory=dict)
    """head → share of its most frequent label, after the first evaluation"""
    guesses: Guesses = field(default_factory=list)
    """predictions on the first rows, after an evaluation; on rank 0"""


@dataclass(frozen=True)
class Evaluation:
    """Results on one held-out set, over all ranks."""

    loss: float
    """weighted sum of the heads' mean losses, in nats"""
    total: float
    """`loss` with the weighted losses of distillation that the set can compute, and the ponder
    cost"""
    losses: dict[str, float]
    """head → mean loss over all its labels"""
    figures: dict[str, float]
    """"head/name" → further metrics of a head, per label; `distil/name` → losses of distillation"""
    labels: int
    """predictions that the means are over, in `unit`s; rows for heads that average over rows"""
    unigram_entropy: float
    """weighted sum of `entropies`, the loss of a unigram model in nats; 0 where a head has none"""
    entropies: dict[str, float]
    """head → entropy in nats of the distribution of its labels, if they are tokens or classes"""
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
    config: TrainConfig, datasets: Datasets, world: World, resources: ExitStack
) -> list[HeldoutSet]:
    """Open the held-out sets; `resources` closes them."""
    opened = []
    for name, shards in datasets.heldout.items():
        stream = open_stream(config.data, [datasets.heldout_phase(name)], world.rank, world.size)
        batches = batches_of_pass(len(shards), config.data.global_batch, config.evaluate.max_rows)
        opened.append(HeldoutSet(name, resources.enter_context(stream), batches))
    return opened


def batches_of_pass(rows: int, global_batch: int, max_rows: int | None) -> int:
    """Return the global batches of an evaluation, the last one padded with filler; 45 rows in batches of 8 are 6."""
    return -(-(rows if max_rows is None else min(rows, max_rows)) // global_batch)


def evaluate(
    engine: Engine, heldout: HeldoutSet, watchdog: Watchdog, stop: StopRequest
) -> Evaluation | None:
    """Evaluate a set once without dropout, with averaged weights if there are any; the same at any world size.

    Return None if a rank was asked to stop: all ranks then stop at the same batch.
    """
    engine.train(False)
    source = _OnePass(heldout.stream.one_pass(engine.config.data.global_batch, heldout.batches))
    try:
        with torch.no_grad(), averages_as_weights(engine):
            return _run_pass(engine, heldout, source, watchdog, stop)
    finally:
        engine.train(True)


@contextmanager
def averages_as_weights(engine: Engine) -> Iterator[None]:
    """Compute with the averaged weights inside the block, if there are any; afterwards all bits are restored."""
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
    # accumulate losses, metrics and counts in float64 over this rank's batches
    heads = engine.config.model.head_weights
    divisors = engine.divisors
    sums = {
        name: torch.zeros((), dtype=torch.float64, device=engine.world.device) for name in divisors
    }
    figures: dict[str, Tensor] = {}
    counts = dict.fromkeys(divisors, 0.0)
    seen: dict[str, Counter[int]] = {head: Counter() for head in heads if heldout.entropies is None}
    for number in range(heldout.batches):
        batch = next_global_batch(source, divisors, engine.world, stop)
        if batch.stop:
            return None
        for micro_batch in batch.micro_batches:
            add_sums(engine.losses(engine.inputs(micro_batch, step=0)), sums, figures)
            for head, counter in seen.items():
                counter.update(engine.heads[head].classes(micro_batch.tensors).tolist())
        for name in divisors:
            counts[name] += batch.counts[name]
        if number == 0 and engine.world.rank == 0:
            with _REPORTS("guesses on held-out rows"):
                heldout.guesses = sample_guesses(engine, batch.micro_batches[0].tensors)
        watchdog.beat()
    # sum over the ranks, and divide by the counts
    named = {**sums, **figures}
    totals = engine.world.sum_over_ranks([*map(float, named.values())])
    if heldout.entropies is None:
        by_rank = engine.world.gather(seen)
        merged = {
            head: sum((of_rank[head] for of_rank in by_rank), Counter[int]()) for head in seen
        }
        labels = {head: counts for head, counts in merged.items() if counts}
        heldout.entropies = {
            head: unigram_entropy([*counts.values()]) for head, counts in labels.items()
        }
        heldout.majorities = {
            head: max(counts.values()) / counts.total() for head, counts in labels.items()
        }
    entropies = heldout.entropies
    means = shares(dict(zip(named, totals, strict=True)), counts)
    figures |= {name: sums[name] for name in divisors if name not in heads and counts[name]}
    return Evaluation(
        loss=sum(weight * means[head] for head, weight in heads.items()),
        total=engine.total_loss(means),
        losses={head: means[head] for head in heads},
        figures={name: means[name] for name in figures},
        labels=int(sum(counts[head] for head in heads)),
        unigram_entropy=sum(w * entropies[h] for h, w in heads.items())
        if heads.keys() == entropies.keys()
        else 0.0,
        entropies=entropies,
        majorities=heldout.majorities,
        unit=_unit([engine.heads[head] for head in heads]),
    )


def _unit(heads: Sequence[Head]) -> str:
    units = {"row" if head.options.unit == "row" else head.unit for head in heads}
    return f"{units.pop()}s" if len(units) == 1 else "predictions"


def unigram_entropy(counts: Sequence[float]) -> float:
    """Return the entropy in nats of the distribution with these counts; [1, 1, 2] gives 1.0397."""
    shares = torch.tensor([count for count in counts if count > 0], dtype=torch.float64)
    if not shares.numel():
        return 0.0
    shares /= shares.sum()
    return float(-(shares * shares.log()).sum())


@torch.no_grad()
def sample_guesses(engine: Engine, batch: Mapping[str, Tensor]) -> Guesses:
    """Return the first rows of a micro-batch with labels, as token ids; [] for a model that predicts no tokens.

    One more forward pass of this rank alone: nothing under ZeRO stage 3, where a rank holds a part
    of the weights.

    Returns:
        Per row `tokens` (ids of the input, at most 96), `form`, `labels`: [position, label, guess,
        probability of the guess], at most 48, and of a decoder `continued`: its greedy continuation
        of the first `prompt` tokens. The form says where labels belong: `masked` at their
        positions, `continued` after the position of the first, `target` in another sequence.
    """
    model = engine.model
    architecture = engine.model.family.architecture
    head = _HEADS[architecture]
    if head not in model.heads or engine.config.zero.stage == 3 or "left_padding" in batch:
        return []
    tensors = {name: tensor.to(engine.world.device) for name, tensor in batch.items()}
    hidden, given = model.views(tensors)[head]
    rows = given["label_index"] // hidden.shape[1]
    labeled = (given["label_ids"] != IGNORED) & (tensors["row_weight"][rows] != 0)
    found: Guesses = []
    for row in sorted(set(rows[labeled].tolist()))[:_ROWS]:
        tokens = tensors["input_ids"][row, : int(tensors["lengths"][row])][:_TOKENS].tolist()
        seen = labeled & (rows == row)
        if architecture == "encoder":
            seen &= given["label_index"] % hidden.shape[1] < _TOKENS
        chosen = seen.nonzero()[:_LABELS, 0]
        positions = given["label_index"][chosen]
        scores = (
            model.heads[head].logits(hidden.flatten(0, 1)[positions])[:, : model.vocab_size].float()
        )
        shares, guesses = scores.softmax(-1).max(-1)
        columns = (positions % hidden.shape[1], given["label_ids"][chosen], guesses)
        labels = [
            list(entry)
            for entry in zip(*(each.tolist() for each in (*columns, shares)), strict=True)
        ]
        found.append({"tokens": tokens, "form": _FORMS[architecture], "labels": labels})
        if architecture == "decoder":
            greedy = generate(model, [tokens[:_PROMPT]], Decoding(max_tokens=_CONTINUATION))
            found[-1] |= {"prompt": len(tokens[:_PROMPT]), "continued": greedy[0].ids}
    return found
