"""Compare compressed models: sizes, measured latency and scores.

The table has the dense model and the paper's claim next to each.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import repeat
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any, Final, NamedTuple, TypeAlias

import torch
from torch import Tensor

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.extensions.compression.keys.scoring.exit import ExitConfig, ExitingModel
from clozeline.extensions.compression.token_pruning import TokenPruning
from clozeline.extensions.compression.token_rules import TopTokens
from clozeline.extensions.compression.written_models import find_claim
from clozeline.extensions.published.export_plan import exported_form
from clozeline.model.build import Model
from clozeline.model.checkpoints.import_record import MODEL
from clozeline.model.heads._head import VocabularyHead
from clozeline.model.layers.quantization import holds_integers
from clozeline.model.parameters.flops import matrix_flops
from clozeline.pipeline.set_kinds import kind_of
from clozeline.pipeline.shards import open_shards
from clozeline.seeding import hash64
from clozeline.terminal import align_rows
from clozeline.tools.command import Positive, UserPath
from clozeline.train.checkpoint.stored_checkpoint import steps_in
from clozeline.train.checkpoint.trained_model import TrainedModel

Batches: TypeAlias = Callable[[int], Iterator[Mapping[str, Tensor]]]
"""Return batches of some number of rows."""
BATCHES: Final = (1, 32)
"""Rows of the measured forward passes."""
_WARMUP_PASSES: Final = 2
"""Untimed passes of each model before the timed passes."""
_MAX_SCORES_IN_MEMORY: Final = 1 << 24
"""Most vocabulary scores in memory at a time; the scores of 32 rows can take more bytes than the
model."""


class Sizes(NamedTuple):
    """Parameters and bytes of a model, and the cost of one row."""

    parameters: int
    nonzero: int
    """parameters that are not 0"""
    stored: int
    """bytes of the weights on disk"""
    flops: float
    """FLOPs of the forward pass of one row with all heads, matrix products only"""
    integers: bool = False
    """weights are stored as integers, which other kernels multiply"""


class Latency(NamedTuple):
    """Median seconds of a forward pass, of a model and of the dense model, which take turns."""

    own: float
    """of the model"""
    dense: float
    """of the dense model"""


def measure_sizes(run: TrainedModel, length: int) -> Sizes:
    """Return the sizes of a model; `length` is the tokens of a row."""
    model = run.model
    checkpoint = run.checkpoint
    weights = (
        tensor.dequantize() if holds_integers(tensor) else tensor
        for tensor in checkpoint.tensors.values()
    )
    nonzero = sum(int(torch.count_nonzero(weight)) for weight in weights)
    target = length if checkpoint.config.architecture == "encoder_decoder" else 0
    forward = model.forward_flops(length, target)
    # off-ramps read nothing where no row leaves early
    forward -= sum(
        matrix_flops(head.get_submodule("off_ramps"))
        for head in model.heads.values()
        if hasattr(head, "off_ramps")
    )
    if isinstance(model, TokenPruning):
        forward -= _count_saved_flops(model, length)
    # A run stores its weights next to optimizer states, which the model does not need: then the
    # bytes of the tensors are counted.
    stored = sum(path.stat().st_size for path in checkpoint.files)
    stored = stored or sum(tensor.nbytes for tensor in checkpoint.tensors.values())
    integers = any(map(holds_integers, checkpoint.tensors.values()))
    return Sizes(model.num_parameters(), nonzero, stored, forward, integers)


@torch.inference_mode()
def _count_saved_flops(model: TokenPruning, length: int) -> float:
    """Return the FLOPs that dropped tokens save in one row of random tokens.

    The rows are drawn like the measured batches.
    """
    batch = random_batch(model, 1, length)
    dense = TokenPruning(model, TopTokens((1.0,) * model.config.layers))
    return float(dense.prune(batch).flops - model.prune(batch).flops)


def measure_latencies(
    dense: Model,
    model: Model | ExitingModel,
    length: int,
    repeats: int,
    batches: Batches | None = None,
) -> dict[int, Latency]:
    """Return latencies by batch size on one thread.

    The two models take turns, so that both meet the same state of the machine.

    Args:
        dense: the model before compression.
        model: the compressed model.
        length: tokens of a row; at most what both position tables hold.
        repeats: timed passes of each model.
        batches: yields a batch of some number of rows for each pass; None: all passes read the
            same batch of random tokens.
    """
    smaller = model.early.model if isinstance(model, ExitingModel) else model
    limits = [
        limit for limit in (dense.position_limit, smaller.position_limit) if limit is not None
    ]
    length = min([length, *limits])
    latencies = {}

    with _one_thread(), torch.inference_mode():
        for rows in BATCHES:
            passes = repeat(random_batch(dense, rows, length)) if batches is None else batches(rows)
            seconds: tuple[list[float], list[float]] = ([], [])

            for number, batch in zip(range(_WARMUP_PASSES + repeats), passes, strict=False):
                pairs: list[tuple[Model | ExitingModel, list[float]]] = list(
                    zip((model, dense), seconds, strict=True)
                )
                # the two models take turns in going first
                for timed_model, times in pairs if number % 2 == 0 else reversed(pairs):
                    start = time.perf_counter()
                    compute_scores(timed_model, batch)
                    if number >= _WARMUP_PASSES:
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
            for states in torch.split(
                view.hidden,
                max(1, _MAX_SCORES_IN_MEMORY // (view.hidden.shape[1] * model.vocab_size)),
            ):
                head.logits(states)
        else:
            head.scores(*view)


def random_batch(model: Model, rows: int, length: int) -> dict[str, Tensor]:
    """Return rows of random tokens without padding, with all columns that a model reads."""
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
        tensors |= {
            f"decoder_{name}": tensors[name] for name in ("input_ids", "position_ids", "lengths")
        }

    return tensors


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


_SAVING_RATIO: Final = 0.95
"""A model saves time or bytes if it needs at most this share of the dense model's; a share closer
to 1 may be noise."""
_NOTABLE_ZERO_SHARE: Final = 0.01
"""Share of parameters that are 0 above which the table says that zeros save no time."""
_HEADER: Final = (
    "model",
    "parameters",
    "non-zero",
    "MB",
    "MFLOPs/row",
    *(f"ms, batch {rows}" for rows in BATCHES),
)


@config_class
class MeasureOptions:
    """Conditions of the measurements."""

    task: UserPath | None = None
    """folder of a task's sets, to score the models; default: none are scored"""
    split: str = "dev"
    """folder of the scored split: dev, test, dev_matched"""
    length: Positive = 128
    """tokens of a row in FLOPs and latency; at most what the position tables hold"""
    repeats: Positive = 15
    """timed passes of each model and batch size; the median is shown"""
    exit: ExitConfig | None = None
    """rule by which rows leave models that were trained with `exits`, {entropy: 0.3}; such a model
    is timed on rows of the task instead of random tokens; default: all layers read all rows"""

    def __post_init__(self) -> None:
        if self.exit is not None and self.task is None:
            raise ValueError(
                "exit: the rows of a task decide how early they leave: expected task=FOLDER, got "
                "none"
            )


class Score(NamedTuple):
    """The score of a model on a task, by the first metric of the task."""

    metric: str
    values: tuple[float, ...]
    """one value for each run, on the scale of the metric"""
    flops: float = 1.0
    """share of the FLOPs of all layers that the rows used; below 1 where rows leave early"""


@dataclass(frozen=True)
class ModelRow:
    """A model of the table."""

    name: str
    sizes: Sizes
    dense: Sizes
    latencies: dict[int, Latency] = field(default_factory=dict)
    """latency by batch size; empty: the row of the dense model itself"""
    score: Score | None = None
    dense_score: Score | None = None
    claim: str = ""
    """result that the paper of the method reports"""

    @property
    def savings(self) -> str:
        """Measurable savings in words, time by batch size."""
        if not self.latencies:
            return "the dense model"
        # with the FLOPs and the kernels of the dense model, a difference of time is noise
        computes = self.sizes.flops < self.dense.flops or self.sizes.integers != self.dense.integers
        times = self.latencies.items() if computes else ()
        faster = [rows for rows, t in times if t.own <= _SAVING_RATIO * t.dense]
        slower = [rows for rows, t in times if t.dense <= _SAVING_RATIO * t.own]
        saved = ["disk"] if self.sizes.stored <= _SAVING_RATIO * self.dense.stored else []
        saved += [f"time at batch {', '.join(map(str, faster))}"] if faster else []
        zeros = 1 - self.sizes.nonzero / self.sizes.parameters
        multiplied = (
            f": the processor multiplies zeros like any number ({100 * zeros:.0f} % of all "
            "parameters)"
        )
        nothing = f"nothing measurable{multiplied if zeros > _NOTABLE_ZERO_SHARE else ''}"
        words = "disk only" if saved == ["disk"] else " and ".join(saved) or nothing
        return f"saves {words}" + (
            f", slower at batch {', '.join(map(str, slower))}" if slower else ""
        )

    @property
    def cells(self) -> list[str]:
        """The cells of the table, in the order of its header."""
        times = [
            f"{1e3 * self.latencies[rows].own:.2f} "
            f"({self.latencies[rows].dense / self.latencies[rows].own:.2f} x)"
            if self.latencies
            else "1 x"
            for rows in BATCHES
        ]

        sizes = self.sizes
        millions = [f"{sizes.stored / 1e6:.2f}", f"{sizes.flops / 1e6:.1f}"]
        counts = [f"{sizes.parameters:,}", f"{sizes.nonzero:,}", *millions]
        scores = [
            format_score(scored) for scored in (self.score, self.dense_score) if scored is not None
        ]
        return [self.name, *counts, *times, *scores]


def measure_row(
    folder: Path,
    dense: Path,
    options: MeasureOptions,
    dense_score: Score | None = None,
    opened: list[TrainedModel] | None = None,
) -> ModelRow:
    """Measure a model next to the dense model, which is scored only if `dense_score` is None.

    Both models are in memory once each, and one at a time while they are scored.

    Args:
        folder: run, model folder, or folder of runs by seed; sizes and latency are measured
            on the first run.
        dense: the model before compression; equal to `folder` for the row of the dense model.
        options: conditions of the measurements.
        dense_score: score of the dense model, if it has been scored before.
        opened: the dense model, then the measured model, if they are in memory already; the list is
            emptied.
    """
    runs = seeds_of(folder)
    dense_runs = seeds_of(dense)
    measured = [dense_runs[0]] if runs == dense_runs else [dense_runs[0], runs[0]]
    opened = opened or [_open_merged(path) for path in measured]
    sizes = [measure_sizes(run, options.length) for run in opened]
    name = folder.name
    claim = "" if runs == dense_runs else find_claim(runs[0])
    latencies = {}
    exits = None
    if runs != dense_runs and any(
        any(head.parts()) for head in opened[1].checkpoint.config.heads.values()
    ):
        exits = options.exit
    if exits is not None:
        name = f"{name}, {exits}"
        claim = "40 % less time, little loss (DeeBERT, 2004.12993)"
        timed = _open_task(runs[0], options.split, options.task)
        exiting = ExitingModel(opened[1].model, timed.head, exits)
        latencies = measure_latencies(
            opened[0].model, exiting, options.length, options.repeats, timed.batches
        )
    elif runs != dense_runs:
        latencies = measure_latencies(
            opened[0].model, opened[1].model, options.length, options.repeats
        )

    opened.clear()
    own_score = None

    if options.task is not None:
        own_score = score(runs, options.split, options.task, exits)
        dense_score = dense_score or (
            score(dense_runs, options.split, options.task) if runs != dense_runs else own_score
        )

    share = 1.0 if own_score is None else own_score.flops
    sizes[-1] = sizes[-1]._replace(flops=share * sizes[-1].flops)
    return ModelRow(name, sizes[-1], sizes[0], latencies, own_score, dense_score, claim)


def _open_merged(folder: Path) -> TrainedModel:
    """Open a run or a model folder as its export computes, with an adapter merged."""
    run = TrainedModel.open(folder)
    return replace(run, checkpoint=exported_form(run))


def seeds_of(folder: Path) -> list[Path]:
    """Return the runs in a folder with a run for each seed, such as an output of finetune.

    A folder that is itself a run or a model is returned alone.

    Raises:
        ConfigurationError: the folder is none of these.
    """
    if steps_in(folder / "checkpoints") or any(
        (folder / name).is_file() for name in (MODEL, "config.json")
    ):
        return [folder]
    runs = sorted(path for path in folder.glob("seed-*") if path.is_dir())
    for run in runs or [folder]:
        if not steps_in(run / "checkpoints"):
            raise ConfigurationError(
                f"{folder}: expected a run, a model folder, or a folder with runs seed-0, seed-1, "
                f"...; {run} has no checkpoint"
            )
    return runs


def score(
    folders: Sequence[Path], split: str, task: Path, exits: ExitConfig | None = None
) -> Score:
    """Return the task's main metric, of each run or model folder."""
    scored = [_score_run(folder, split, task, exits) for folder in folders]
    metric = next(iter(scored[0][0]))
    flops = fmean(share for _, share in scored)
    return Score(metric, tuple(metrics[metric] for metrics, _ in scored), flops)


def _score_run(
    folder: Path, split: str, task: Path, exits: ExitConfig | None
) -> tuple[Mapping[str, float], float]:
    """Return the metrics of a task, and the share of the FLOPs that its rows used."""
    opened = _open_task(folder, split, task)
    exiting = None if exits is None else ExitingModel(opened.trained.model, opened.head, exits)
    metrics = replace(opened, compute=exiting).metrics()
    return metrics, 1.0 if exiting is None else exiting.usage([exiting.counts])["flops"]


def _open_task(run: Path, split: str, task: Path | None) -> Any:
    """Return a model with a split of labeled rows, as the kind of the set opens them."""
    assert task is not None, "the options say so"
    kind = kind_of(open_shards(task / split).manifest.objective)
    if kind is None:
        raise ConfigurationError(f"{task}: expected a folder with sets of labeled rows, got texts")
    return kind.open_run(run, split, task)


def format_score(scored: Score) -> str:
    """Return the mean in percent with the standard deviation of several runs.

    Example:
        >>> format_score(Score("accuracy", (0.5, 0.75))), format_score(Score("accuracy", (0.5,)))
        ('62.50 ± 17.68', '50.00')
    """
    spread = f" ± {100 * stdev(scored.values):.2f}" if len(scored.values) > 1 else ""
    return f"{100 * fmean(scored.values):.2f}{spread}"


def header_of(rows: Sequence[ModelRow]) -> list[str]:
    """Return the names of the columns."""
    scores = [row.score for row in rows if row.score is not None]
    return [*_HEADER, *([f"{scores[0].metric}, %", "dense, %"] if scores else [])]


def table_lines(rows: Sequence[ModelRow]) -> Iterator[str]:
    """Yield the table; below each model, its savings and the paper's claim."""
    lines = [header_of(rows), *(row.cells for row in rows)]
    full = [[*line, *[""] * (len(lines[0]) - len(line))] for line in lines]
    for number, line in enumerate(align_rows(full, right=True)):
        yield line
        if number:
            row = rows[number - 1]
            yield f"  {row.savings}" + (f"; the paper's claim: {row.claim}" if row.claim else "")
