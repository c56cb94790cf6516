"""An objective as configurations name it: its options are beside the entry's own keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass

from clozeline.configuration.config import STRICT
from clozeline.pipeline.corrupt.objectives._objective import Objective
from clozeline.pipeline.group.groupings import build_grouping
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.registry import Chosen, OneOf


@dataclass(frozen=True, kw_only=True, config=STRICT)
class NamedObjective:
    """An objective with a label; subclasses add keys of their own."""

    WORD: ClassVar = "name"
    BESIDE: ClassVar = {"objective": "name"}

    objective: Annotated[Chosen, OneOf("clozeline.pipeline.corrupt.objectives")]
    """name of the objective; its options are beside it"""
    label: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._=-]*$")] | None = None
    """name of the set or part and key of its draws, unique among its neighbours; default: the objective's name"""

    @property
    def set_label(self) -> str:
        """Return the label, or the objective's name."""
        return self.label or self.objective.name

    def build(self, vocabulary: Vocabulary) -> Objective:
        """Return the objective, bound to a vocabulary."""
        objective: Objective = self.objective.build(vocabulary, self.set_label)
        return objective

    def check_tokens(self, vocabulary: Vocabulary) -> None:
        """Raise a ConfigurationError where a vocabulary lacks a special token of the objective or its grouping."""
        build_grouping(self.build(vocabulary).grouping, vocabulary)


def inline_options(entry: type[NamedObjective]) -> BeforeValidator:
    """Accept a bare name, or one mapping with the keys of an entry and those of its objective."""
    keys = [key.name for key in fields(entry) if key.name != "objective"]

    def separate(value: Any) -> Any:
        if isinstance(value, str):
            return {"objective": {"name": value}}
        if not isinstance(value, Mapping) or "objective" in value:
            return value
        options = {key: item for key, item in value.items() if key not in keys}
        return {**{key: value[key] for key in keys if key in value}, "objective": options}

    return BeforeValidator(separate)
