"""Options of `corrupt`: a list of objectives; the keys of an entry include its options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import AfterValidator, BeforeValidator, Field

from clozeline import plugins
from clozeline.configuration.config import Natural, config_class
from clozeline.configuration.described_keys import Common
from clozeline.pipeline.block_options import BlockRows, Compression, Container
from clozeline.pipeline.registries import ObjectiveComponent

if TYPE_CHECKING:  # the keys are listed without the objectives, which import numpy
    from clozeline.pipeline.corrupt.objectives import Objective
    from clozeline.pipeline.vocabulary import Vocabulary


@config_class
class NamedObjective:
    """An objective with a label; subclasses add further keys."""

    SHORTHAND_KEY: ClassVar = "name"
    INLINE_KEYS: ClassVar = {"objective": "name"}

    objective: ObjectiveComponent
    """name of the objective; its options are keys of the same mapping"""
    label: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._=-]*$")] | None = None
    """unique name of the set or part, which keys its random draws; default: the objective's name"""

    @property
    def set_label(self) -> str:
        return self.label or plugins.short_name(self.objective.name)

    def build(self, vocabulary: Vocabulary) -> Objective:
        """Build the objective for a vocabulary."""
        objective: Objective = self.objective.build(vocabulary, self.set_label)
        return objective

    def check_tokens(self, vocabulary: Vocabulary) -> None:
        """Raise ConfigurationError if the objective or its grouping lacks a special token."""
        from clozeline.pipeline.group.groupings import build_grouping

        build_grouping(self.build(vocabulary).grouping, vocabulary)


def inline_options(entry: type[NamedObjective]) -> BeforeValidator:
    """Accept a name, or a mapping that holds the keys of an entry and its objective's options."""
    keys = [key.name for key in fields(entry) if key.name != "objective"]

    def separate(value: object) -> object:
        if isinstance(value, str):
            return {"objective": {"name": value}}
        if not isinstance(value, Mapping) or "objective" in value:
            return value
        options = {key: item for key, item in value.items() if key not in keys}
        return {**{key: value[key] for key in keys if key in value}, "objective": options}

    return BeforeValidator(separate)


@config_class
class ObjectiveEntry(NamedObjective):
    """One example set; the options of its objective are keys of the same mapping."""

    objective: Annotated[ObjectiveComponent, Common()]
    """name of the objective; its options are keys of the same mapping"""
    variants: Annotated[int, Field(ge=1, le=65536), Common()] = 1
    """corruptions of each training sample; held-out samples are corrupted once"""
    container: Container = "arrow"
    """`arrow`: Arrow IPC files; `tar`: WebDataset tars of the same blocks"""
    compression: Compression = field(default_factory=Compression)
    block_rows: BlockRows = "auto"
    """rows in a block, 1 to 65536, or `auto`: at most 4 MiB"""
    seed: Natural | None = None
    """seed of corruption; default: the recipe's seed"""


def _require_distinct_labels(entries: list[ObjectiveEntry]) -> list[ObjectiveEntry]:
    labels = [entry.set_label for entry in entries]
    repeated = sorted({label for label in labels if labels.count(label) > 1})
    if repeated:
        raise ValueError(
            f"two objectives have the same label {', '.join(repeated)}; give one of them another "
            "`label:`"
        )
    return entries


CorruptConfig = Annotated[
    list[Annotated[ObjectiveEntry, inline_options(ObjectiveEntry)]],
    Field(min_length=1),
    AfterValidator(_require_distinct_labels),
]
"""The recipe's key `corrupt`."""
