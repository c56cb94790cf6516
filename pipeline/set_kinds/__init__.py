"""Kinds of sets whose rows no objective of `corrupt` made: they hold texts with their labels.

Extensions add them, each with the name that its sets record as their objective.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from clozeline.errors import ConfigurationError
from clozeline.pipeline.registries import OBJECTIVES, SET_KINDS
from clozeline.pipeline.rows import Ragged, ShardRow
from clozeline.pipeline.shards.manifest import ObjectiveRecord
from clozeline.pipeline.tokenize.published.exporting import Blanks

Problem: TypeAlias = tuple[int, str]
"""A row and its problem."""


class SetKind(ABC):
    """What the rows of a set hold, from what the set records of its objective."""

    head: str
    """head that learns the labels"""
    labels: tuple[str, ...]
    """names of its classes in order; empty if the labels are none"""
    blanks: Blanks = "kept"
    """blanks of the texts in the rows"""

    @abstractmethod
    def __init__(self, objective: ObjectiveRecord) -> None: ...

    @abstractmethod
    def head_setup(self) -> Any:
        """Return the object whose `configure` and `fit` give the head what the set says of it.

        It may import torch.
        """

    def open_run(self, run: Path, split: str, folder: Path) -> Any:
        """Return a model with a split of labeled rows, whose `metrics` it computes.

        It may import torch.

        Raises:
            ConfigurationError: the model was not trained for these rows.
        """
        raise ConfigurationError(f"{folder}: no scores are computed on sets of this kind")

    def problems(self, columns: Mapping[str, Ragged]) -> Iterator[Problem]:
        """Yield each row of a block whose labels break a rule, and the problem."""
        yield from ()

    def describe_answer(self, row: ShardRow) -> dict[str, str]:
        """Return the label of a row with its meaning, by the name of its column."""
        return {}


def kind_of(objective: ObjectiveRecord | None) -> SetKind | None:
    """Return what the rows of a set hold; None for texts, or what an objective made of them.

    Raises:
        ConfigurationError: nothing here knows the objective that the set records.
    """
    if objective is None or OBJECTIVES.is_known(objective.name):
        return None
    if not SET_KINDS.is_known(objective.name):
        raise ConfigurationError(
            f"the set was made with '{objective.name}', which is no objective here: it is of an "
            "extension that is hidden or not installed; clozeline doctor lists them"
        )
    return SET_KINDS.create(objective.name, objective)
