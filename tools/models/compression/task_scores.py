"""Score a run, several runs of one training, or a model folder on a task, as `clozeline evaluate` does."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from clozeline.errors import ConfigurationError
from clozeline.files import file_hash
from clozeline.model.checkpoints import IMPORT_RECORD, MODEL, build_checkpoint, find_imported_tokenizer, read_checkpoint
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.tools.model_folder import TOKENIZER
from clozeline.tools.models.compression.written_models import RECORD
from clozeline.tools.runs.evaluate import EvaluateOptions, evaluate_run
from clozeline.tools.runs.evaluation.scores import scores_of
from clozeline.tools.runs.evaluation.task_run import TaskRun, find_head, open_split, set_rows
from clozeline.tools.runs.inference.trained_model import TrainedModel
from clozeline.train.checkpoint.format import steps_in
from clozeline.train.startup.source_tokenizer import refuse_other_ids


class Score(NamedTuple):
    """The first metric of a task."""

    metric: str
    values: tuple[float, ...]
    """one for each run, on the scale of the metric"""


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


def score(folders: Sequence[Path], split: str, task: Path) -> Score:
    """Return the task's first metric of each run or model folder."""
    results = [_metrics_of(folder, split, task) for folder in folders]
    metric = next(iter(results[0]))
    return Score(metric, tuple(metrics[metric] for metrics in results))


def _metrics_of(folder: Path, split: str, task: Path) -> dict[str, float]:
    if steps_in(folder / "checkpoints"):
        metrics: dict[str, float] = json.loads(evaluate_run(folder, EvaluateOptions(split=split, task=task)))["metrics"]
        return metrics
    opened = _open_folder(folder, split, task)
    rows = set_rows(opened.shards)
    return dict(scores_of(opened, rows, opened.answer.predict(opened.task, rows))["metrics"])


def _open_folder(folder: Path, split: str, task: Path) -> TaskRun:
    """Open a model folder in our format, or with integers, with a split, as `open_task_run` opens a run."""
    record = next((name for name in (IMPORT_RECORD, RECORD) if (folder / name).is_file()), IMPORT_RECORD)
    tokenizer = folder / TOKENIZER if record == RECORD else find_imported_tokenizer(folder)
    if tokenizer is None:
        raise ConfigurationError(
            f"{folder}: expected a run, or a folder in our format with its tokenizer, to score; import the folder with "
            "clozeline import-model, and give that"
        )
    shards, facts = open_split(task, split)
    checkpoint = read_checkpoint(folder, quantized=True)
    head = find_head(folder, checkpoint.config, facts, shards)
    trained = TrainedModel(build_checkpoint(checkpoint), load_tokenizer(tokenizer), (), 0)
    refuse_other_ids(folder, shards, "task")
    train, _ = open_split(task, "train")
    return TaskRun(trained, facts, head, shards, train, 0, file_hash(folder / record))
