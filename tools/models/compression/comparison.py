"""The table of compressed models: sizes, measured latency and scores next to the dense model and the paper's claim."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from clozeline.configuration.config import HOME_EXPANDED, config_class
from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import MODEL
from clozeline.terminal import align_rows
from clozeline.tools.models.compression.measurements import BATCHES, Latency, Sizes, measure_latencies, measure_sizes
from clozeline.tools.models.compression.written_models import find_claim
from clozeline.tools.models.export.exportable import exported_form
from clozeline.tools.runs.evaluate import EvaluateOptions, evaluate_run
from clozeline.tools.runs.evaluation.early_exits import ExitingModel, ExitOptions
from clozeline.tools.runs.evaluation.task_run import open_task_run
from clozeline.train.checkpoint.stored_checkpoint import steps_in
from clozeline.train.checkpoint.trained_model import TrainedModel

_FASTER: Final = 0.95
"""Share of the dense model's time, or bytes, from which something is saved; closer to 1 is noise."""
_SOME_ZEROS: Final = 0.01
_HEADER: Final = ("model", "parameters", "non-zero", "MB", "MFLOPs/row", *(f"ms, batch {rows}" for rows in BATCHES))


@config_class
class MeasureOptions:
    """Conditions of the measurements."""

    task: Annotated[Path, HOME_EXPANDED] | None = None
    """folder of a task's sets, to score the models; default: none are scored"""
    split: str = "dev"
    """folder of the scored split: dev, test, dev_matched"""
    length: Annotated[int, Field(ge=1)] = 128
    """tokens of a row in FLOPs and latency; at most what the position tables hold"""
    repeats: Annotated[int, Field(ge=1)] = 15
    """timed passes of each model and batch size; the median is shown"""
    exit: ExitOptions | None = None
    """rule by which rows leave models that were trained with `exits`, {entropy: 0.3}; such a model is timed on rows of
    the task instead of random tokens; default: all layers read all rows"""

    def __post_init__(self) -> None:
        if self.exit is not None and self.task is None:
            raise ValueError("exit: the rows of a task decide how early they leave: expected task=FOLDER, got none")


class Score(NamedTuple):
    """The first metric of a task."""

    metric: str
    values: tuple[float, ...]
    """one for each run, on the scale of the metric"""
    flops: float = 1.0
    """share of the FLOPs that rows which leave early used"""


@dataclass(frozen=True)
class Row:
    """A model of the table."""

    name: str
    sizes: Sizes
    dense: Sizes
    latencies: dict[int, Latency] = field(default_factory=dict)
    """by batch size; empty: the dense model itself"""
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
        faster = [rows for rows, t in times if t.own <= _FASTER * t.dense]
        slower = [rows for rows, t in times if t.dense <= _FASTER * t.own]
        saved = ["disk"] if self.sizes.stored <= _FASTER * self.dense.stored else []
        saved += [f"time at batch {', '.join(map(str, faster))}"] if faster else []
        zeros = 1 - self.sizes.nonzero / self.sizes.parameters
        multiplied = f": the processor multiplies zeros like any number ({100 * zeros:.0f} % of all parameters)"
        nothing = f"nothing measurable{multiplied if zeros > _SOME_ZEROS else ''}"
        words = "disk only" if saved == ["disk"] else " and ".join(saved) or nothing
        return f"saves {words}" + (f", slower at batch {', '.join(map(str, slower))}" if slower else "")

    @property
    def cells(self) -> list[str]:
        """The cells of the table, in the order of its header."""
        times = [
            f"{1e3 * self.latencies[rows].own:.2f} ({self.latencies[rows].dense / self.latencies[rows].own:.2f} x)"
            if self.latencies
            else "1 x"
            for rows in BATCHES
        ]
        sizes = self.sizes
        millions = [f"{sizes.stored / 1e6:.2f}", f"{sizes.flops / 1e6:.1f}"]
        counts = [f"{sizes.parameters:,}", f"{sizes.nonzero:,}", *millions]
        scores = [format_score(scored) for scored in (self.score, self.dense_score) if scored is not None]
        return [self.name, *counts, *times, *scores]


def measure_row(
    folder: Path,
    dense: Path,
    options: MeasureOptions,
    dense_score: Score | None = None,
    opened: list[TrainedModel] | None = None,
) -> Row:
    """Measure a model next to the dense one, of which it is given the score or computes it.

    Both models are in memory once each, and one at a time while they are scored.

    Args:
        folder: run, model folder, or folder of runs by seed; sizes and latency are those of the first.
        dense: the model before; the same path for its own row.
        options: of the measurements.
        dense_score: of the dense model, if it has been scored before.
        opened: the dense model and the other one, if they are in memory already; taken from the list.
    """
    runs, before = seeds_of(folder), seeds_of(dense)
    measured = [before[0]] if runs == before else [before[0], runs[0]]
    opened = opened or [_open_merged(path) for path in measured]
    sizes = [measure_sizes(run, options.length) for run in opened]
    name, claim = folder.name, "" if runs == before else find_claim(runs[0])
    latencies, exits = {}, None
    if runs != before and any(head.exits for head in opened[1].checkpoint.config.heads.values()):
        exits = options.exit
    if exits is not None:
        name, claim = f"{name}, {exits}", "40 % less time, little loss (DeeBERT, 2004.12993)"
        timed = open_task_run(runs[0], options.split, options.task)
        exiting = ExitingModel(opened[1].model, timed.head, exits)
        latencies = measure_latencies(opened[0].model, exiting, options.length, options.repeats, timed.batches)
    elif runs != before:
        latencies = measure_latencies(opened[0].model, opened[1].model, options.length, options.repeats)
    opened.clear()
    own_score = None
    if options.task is not None:
        own_score = score(runs, options.split, options.task, exits)
        dense_score = dense_score or (score(before, options.split, options.task) if runs != before else own_score)
    share = 1.0 if own_score is None else own_score.flops
    sizes[-1] = sizes[-1]._replace(flops=share * sizes[-1].flops)
    return Row(name, sizes[-1], sizes[0], latencies, own_score, dense_score, claim)


def _open_merged(folder: Path) -> TrainedModel:
    """Open a run or a model folder as its export computes, with an adapter merged."""
    run = TrainedModel.open(folder)
    return replace(run, checkpoint=exported_form(run))


def seeds_of(folder: Path) -> list[Path]:
    """Return the runs in a folder with a run for each seed, such as an output of finetune; the folder if it is a model.

    Raises:
        ConfigurationError: it is neither.
    """
    if steps_in(folder / "checkpoints") or any((folder / name).is_file() for name in (MODEL, "config.json")):
        return [folder]
    runs = sorted(path for path in folder.glob("seed-*") if steps_in(path / "checkpoints"))
    if not runs:
        raise ConfigurationError(
            f"{folder}: expected a run, a model folder, or a folder with runs seed-0, seed-1, ...; found none"
        )
    return runs


def score(folders: Sequence[Path], split: str, task: Path, exits: ExitOptions | None = None) -> Score:
    """Return the task's first metric of each run or model folder, as `clozeline evaluate` computes it."""
    options = EvaluateOptions(split=split, task=task, exit=exits)
    results = [json.loads(evaluate_run(folder, options)) for folder in folders]
    metric = next(iter(results[0]["metrics"]))
    flops = fmean(result["exit"]["flops"] if exits else 1.0 for result in results)
    return Score(metric, tuple(result["metrics"][metric] for result in results), flops)


def format_score(scored: Score) -> str:
    """Return the mean in percent with the standard deviation of several runs.

    Example:
        >>> format_score(Score("accuracy", (0.5, 0.75))), format_score(Score("accuracy", (0.5,)))
        ('62.50 ± 17.68', '50.00')
    """
    spread = f" ± {100 * stdev(scored.values):.2f}" if len(scored.values) > 1 else ""
    return f"{100 * fmean(scored.values):.2f}{spread}"


def header_of(rows: Sequence[Row]) -> list[str]:
    """Return the names of the columns."""
    scores = [row.score for row in rows if row.score is not None]
    return [*_HEADER, *([f"{scores[0].metric}, %", "dense, %"] if scores else [])]


def table_lines(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the table; below each model, what it saves and what the paper claims."""
    lines = [header_of(rows), *(row.cells for row in rows)]
    full = [[*line, *[""] * (len(lines[0]) - len(line))] for line in lines]
    for number, line in enumerate(align_rows(full, right=True)):
        yield line
        if number:
            row = rows[number - 1]
            yield f"  {row.savings}" + (f"; the paper's claim: {row.claim}" if row.claim else "")
