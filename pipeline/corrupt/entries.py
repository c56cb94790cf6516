"""Objective entries of a recipe: objective, number of variants, form of the shards."""

from dataclasses import field
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from clozeline.configuration.config import config_class
from clozeline.pipeline.block_options import BlockRows, Compression
from clozeline.pipeline.corrupt.named_objective import NamedObjective, inline_options


@config_class
class ObjectiveEntry(NamedObjective):
    """One example set. The options of the objective are keys of the same mapping."""

    variants: Annotated[int, Field(ge=1, le=65536)] = 1
    """corruptions of each training sample; held-out samples have one"""
    container: Literal["arrow", "tar"] = "arrow"
    """`arrow`: Arrow IPC files; `tar`: WebDataset tars of the same blocks"""
    compression: Compression = field(default_factory=Compression)
    block_rows: BlockRows = "auto"
    """rows of a block, 1 to 65536, or `auto`: at most 4 MiB"""
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] | None = None
    """seed of corruption; default: the recipe's"""


def _unique(entries: list[ObjectiveEntry]) -> list[ObjectiveEntry]:
    labels = [entry.set_label for entry in entries]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise ValueError(f"two objectives share the label {', '.join(twice)}; give one of them a `label:` of its own")
    return entries


ObjectiveEntries = Annotated[
    list[Annotated[ObjectiveEntry, inline_options(ObjectiveEntry)]], Field(min_length=1), AfterValidator(_unique)
]
"""The recipe's key `corrupt`."""
