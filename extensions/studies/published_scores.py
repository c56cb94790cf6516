"""Print a run's own score beside published ones, from the tables of configs/published."""

from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from clozeline import HOME
from clozeline.configuration.config import config_class, load_config
from clozeline.errors import ConfigurationError
from clozeline.extensions.tasks.finetuning_scores import (
    ScoredRun,
    read_scored,
    scores_path,
)

_TABLES: Final = HOME / "configs" / "published"


@config_class
class PublishedColumn:
    """A column of a published table: the task of ours, and the metric, that it shows."""

    task: str
    """name of the task, as `clozeline finetune` takes it"""
    metric: str
    """name of the metric, as `clozeline evaluate` prints it"""


@config_class
class PublishedTable:
    """Scores that a paper reports, by model and column."""

    title: str
    """benchmark and unit"""
    source: str
    """paper and table"""
    set: str
    """rows that were scored"""
    columns: Annotated[dict[str, PublishedColumn], Field(min_length=1)]
    """task and metric of each column"""
    models: dict[str, dict[str, float]] = field(default_factory=dict)
    """scores in percent, by model and column"""

    def __post_init__(self) -> None:
        named = {column for scores in self.models.values() for column in scores}
        if unknown := sorted(named - self.columns.keys()):
            raise ValueError(f"models: expected columns of the table, got {unknown[0]}")


def load_published(name: str) -> PublishedTable:
    """Return a published table by name; a ConfigurationError lists the tables."""
    file = _TABLES / f"{name}.yaml"
    if not file.is_file():
        known = ", ".join(sorted(path.stem for path in _TABLES.glob("*.yaml")))
        raise ConfigurationError(f"published: expected one of {known}, got {name!r}")
    return load_config(PublishedTable, file)


def read_own_scores(run: Path, seed: int) -> ScoredRun | None:
    """Return the scores of a run of `clozeline finetune`; None: it has none."""
    if not scores_path(run.parent, "dev", seed).is_file():
        return None
    scored = (each for each in read_scored(run.parent) if each.scores["seed"] == seed)
    return next(scored, None)


def published_rows(
    table: PublishedTable, own: Sequence[tuple[str, ScoredRun | None]]
) -> list[list[str]]:
    """Return the rows of a table in percent: published models, then runs by their names.

    A run has the cell of its task; a dash marks what is not known.
    """
    rows = []
    for model, scores in table.models.items():
        cells = (f"{scores[column]:.1f}" if column in scores else "-" for column in table.columns)
        rows.append([model, *cells])

    for name, run in own:
        row = [name]
        for column in table.columns.values():
            score = None
            if run is not None and run.scores["task"] == column.task:
                score = run.metrics.get(column.metric)
            row.append("-" if score is None else f"{100 * score:.1f}")
        rows.append(row)
    return rows
