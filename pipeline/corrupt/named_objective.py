"""Objective entries of configurations: the options of the objective next to the keys of the entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field

from clozeline.configuration.config import config_class
from clozeline.registry import Chosen, OneOf

if TYPE_CHECKING:  # the keys are listed without the objectives, which import numpy
    from clozeline.pipeline.corrupt.objectives import Objective
    from clozeline.pipeline.vocabulary import Vocabulary


@config_class
class NamedObjective:
    """An objective with a label; subclasses add keys of their own."""

    WORD: ClassVar = "name"
    BESIDE: ClassVar = {"objective": "name"}

    objective: Annotated[Chosen, OneOf("clozeline.pipeline.corrupt.objectives")]
    """name of the objective; its options are keys of the same mapping"""
    label: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._=-]*$")] | None = None
    """unique name of the set or part, which keys its random draws; default: the objective's name"""

    @property
    def set_label(self) -> str:
        return self.label or self.objective.name

    def build(self, vocabulary: Vocabulary) -> Objective:
        """Build the objective for a vocabulary."""
        objective: Objective = self.objective.build(vocabulary, self.set_label)
        return objective

    def check_tokens(self, vocabulary: Vocabulary) -> None:
        """Raise a ConfigurationError if the vocabulary lacks a special token of the objective or its grouping."""
        from clozeline.pipeline.group.groupings import build_grouping

        build_grouping(self.build(vocabulary).grouping, vocabulary)


def inline_options(entry: type[NamedObjective]) -> BeforeValidator:
    """Accept a bare name, or a mapping with both the keys of the entry and the options of its objective."""
    keys = [key.name for key in fields(entry) if key.name != "objective"]

    def separate(value: Any) -> Any:
        if isinstance(value, str):
            return {"objective": {"name": value}}
        if not isinstance(value, Mapping) or "objective" in value:
            return value
        options = {key: item for key, item in value.items() if key not in keys}
        return {**{key: value[key] for key in keys if key in value}, "objective": options}

    return BeforeValidator(separate)
