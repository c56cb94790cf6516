"""Measure a model: parameters, bytes on disk, FLOPs, and latency next to the dense model."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import repeat
from statistics import median
from typing import Final, NamedTuple, TypeAlias

import torch
from torch import Tensor

from clozeline.model.build import Model
from clozeline.model.compression.token_pruning import TokenPruning
from clozeline.model.compression.token_rules import TopTokens
from clozeline.model.heads._head import VocabularyHead
from clozeline.model.layers.quantization import holds_integers
from clozeline.model.parameters.flops import matrix_flops
from clozeline.seeding import hash64
from clozeline.tools.runs.evaluation.early_exits import ExitingModel
from clozeline.train.checkpoint.trained_model import TrainedModel

Batches: TypeAlias = Callable[[int], Iterator[Mapping[str, Tensor]]]
"""Return batches of some number of rows."""
BATCHES: Final = (1, 32)
"""Rows of the measured forward passes."""
_WARMUP: Final = 2
_SCORES: Final = 1 << 24
"""Scores of a vocabulary that are in memory at a time; those of 32 rows can take more bytes than the model."""


class Sizes(NamedTuple):
    """Parameters and bytes of a model, and the cost of one row."""

    parameters: int
    nonzero: int
    """parameters that are not 0"""
    stored: int
    """bytes of the weights on disk"""
    flops: float
    """of one row's forward pass with its heads, matrix products only"""
    integers: bool = False
    """weights are stored as integers, which other kernels multiply"""


class Latency(NamedTuple):
    """Median seconds of a forward pass, of a model and of the dense one in turn."""

    own: float
    dense: float


def measure_sizes(run: TrainedModel, length: int) -> Sizes:
    """Return the sizes of a model; `length` is the tokens of a row."""
    model, checkpoint = run.model, run.checkpoint
    weights = (tensor.dequantize() if holds_integers(tensor) else tensor for tensor in checkpoint.tensors.values())
    nonzero = sum(int(torch.count_nonzero(weight)) for weight in weights)
    target = length if checkpoint.config.architecture == "encoder_decoder" else 0
    forward = model.forward_flops(length, target)
    # off-ramps read nothing where no row leaves early
    forward -= sum(matrix_flops(head.off_ramps) for head in model.heads.values() if head.off_ramps is not None)
    if isinstance(model, TokenPruning):
        forward -= _saved_flops(model, length)
    # a run's weights are next to optimizer states, which the model does not need
    stored = sum(path.stat().st_size for path in checkpoint.files)
    stored = stored or sum(tensor.nbytes for tensor in checkpoint.tensors.values())
    integers = any(map(holds_integers, checkpoint.tensors.values()))
    return Sizes(model.num_parameters(), nonzero, stored, forward, integers)


@torch.inference_mode()
def _saved_flops(model: TokenPruning, length: int) -> float:
    """Return the FLOPs that dropped tokens save in one row of random tokens, as in the measured batches."""
    batch = random_batch(model, 1, length)
    dense = TokenPruning(model, TopTokens((1.0,) * model.config.layers))
    return float(dense.prune(batch).flops - model.prune(batch).flops)


def measure_latencies(
    dense: Model, model: Model | ExitingModel, length: int, repeats: int, batches: Batches | None = None
) -> dict[int, Latency]:
    """Return latencies by batch size: on one thread, the two models in turn, so that both meet the same machine.

    Args:
        dense: the model before.
        model: the smaller one.
        length: tokens of a row; at most what both position tables hold.
        repeats: timed passes of each model.
        batches: of some number of rows, one for each pass; None: the same one of random tokens.
    """
    smaller = model.early.model if isinstance(model, ExitingModel) else model
    limits = [limit for limit in (dense.position_limit, smaller.position_limit) if limit is not None]
    length = min([length, *limits])
    latencies = {}
    with _one_thread(), torch.inference_mode():
        for rows in BATCHES:
            passes = repeat(random_batch(dense, rows, length)) if batches is None else batches(rows)
            seconds: tuple[list[float], list[float]] = ([], [])
            for number, batch in zip(range(_WARMUP + repeats), passes, strict=False):
                pairs: list[tuple[Model | ExitingModel, list[float]]] = list(zip((model, dense), seconds, strict=True))
                for own, times in pairs if number % 2 == 0 else reversed(pairs):  # each is the first every other time
                    start = time.perf_counter()
                    compute_scores(own, batch)
                    if number >= _WARMUP:
                        times.append(time.perf_counter() - start)
            latencies[rows] = Latency(median(seconds[0]), median(seconds[1]))
    return latencies


def compute_scores(model: Model | ExitingModel, batch: Mapping[str, Tensor]) -> None:
    """Compute what `model.logits` returns, the scores of a vocabulary for a few rows at a time."""
    if isinstance(model, ExitingModel):
        model(batch)
        return
    for name, view in model.views(batch).items():
        head = model.heads[name]
        if isinstance(head, VocabularyHead):
            for states in torch.split(view.hidden, max(1, _SCORES // (view.hidden.shape[1] * model.vocab_size))):
                head.logits(states)
        else:
            head.scores(*view)


def random_batch(model: Model, rows: int, length: int) -> dict[str, Tensor]:
    """Return rows of random tokens without padding, with what the families and heads read."""
    generator = torch.Generator().manual_seed(hash64("latency", rows) >> 1)
    ids = torch.randint(model.vocab_size, (rows, length), generator=generator)
    tensors = {
        "input_ids": ids,
        "position_ids": torch.arange(length)[None].expand(rows, -1),
        "lengths": torch.full((rows,), length),
        "row_weight": torch.ones(rows),
        "choices": torch.ones(rows, dtype=torch.int64),
    }
    if model.family.architecture == "encoder_decoder":
        tensors |= {f"decoder_{name}": tensors[name] for name in ("input_ids", "position_ids", "lengths")}
    return tensors


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
