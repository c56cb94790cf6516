"""Objective entries of a recipe: what to corrupt, how often, and how to write it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic.dataclasses import dataclass

from pipeline.config import STRICT
from pipeline.objectives import Objective
from pipeline.registry import Chosen, OneOf
from pipeline.shard_format import BlockRows, Compression
from pipeline.vocabulary import Vocabulary

__all__ = ["ObjectiveEntries", "ObjectiveEntry"]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ObjectiveEntry:
    """One example set. The objective's own options stand beside these keys."""

    objective: Annotated[Chosen, OneOf("pipeline.objectives")]
    """`name` and options of the objective"""
    label: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._=-]*$")] | None = None
    """folder of the set and key of its draws, unique in the recipe; default: the objective's name"""
    variants: Annotated[int, Field(ge=1, le=65536)] = 1
    """corruptions of each training sample; held-out samples have one"""
    container: Literal["arrow", "tar"] = "arrow"
    """`arrow`: Arrow IPC files; `tar`: WebDataset tars of the same blocks"""
    compression: Compression = field(default_factory=Compression)
    block_rows: BlockRows = "auto"
    """rows of a block, 1 to 65536, or `auto`: at most 4 MiB"""
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] | None = None
    """seed of corruption; default: the recipe's"""

    @property
    def set_label(self) -> str:
        """The label, or the objective's name."""
        return self.label or self.objective.name

    def build(self, vocabulary: Vocabulary) -> Objective:
        """The objective, bound to a vocabulary."""
        objective: Objective = self.objective.build(vocabulary, self.set_label)
        return objective


def _separate(value: Any) -> Any:
    """`name: masked_lm` with the keys of an entry and of the objective side by side, or a bare name."""
    if isinstance(value, str):
        return {"objective": {"name": value}}
    if not isinstance(value, Mapping) or "objective" in value:
        return value
    own = {key: value[key] for key in _OWN if key in value}
    return {**own, "objective": {key: item for key, item in value.items() if key not in own}}


_OWN = tuple(one.name for one in fields(ObjectiveEntry) if one.name != "objective")


def _unique(entries: list[ObjectiveEntry]) -> list[ObjectiveEntry]:
    labels = [entry.set_label for entry in entries]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise ValueError(f"two objectives share the label {', '.join(twice)}; give one of them a `label:` of its own")
    return entries


ObjectiveEntries = Annotated[
    list[Annotated[ObjectiveEntry, BeforeValidator(_separate)]], Field(min_length=1), AfterValidator(_unique)
]
"""The recipe's key `corrupt`."""
