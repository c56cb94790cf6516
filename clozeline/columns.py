"""Columns of shard sets, and their roles: what the values are for, in batches, checks and views."""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

Use: TypeAlias = Literal["ids", "position", "start", "label", "row", "weight", "undo"]
Bound: TypeAlias = Literal["", "vocabulary", "languages", "classes"]


@dataclass(frozen=True, slots=True)
class Role:
    """Purpose of a list column. Batches, checks and views follow it; what a model reads is declared here alone.

    `use` is one of:
        ids       token ids with special tokens
        position  places in the column `of`, each once; those of labels ascend
        start     places in the column `of` where its parts start, first 0, ascending
        label     one entry for each entry of the column `of`; without `of`, as the rule of the column says
        row       one value for the row
        weight    one factor of the row's loss
        undo      kept for `uncorrupt`, scores or people; no batch holds it
    """

    use: Use
    of: str = ""
    head: str = ""
    """the head that alone learns from it; empty: the body of the model, or every head"""
    below: int | Bound = ""
    """every value is below this number, or the number of these; empty: no bound"""
    fraction: bool = False
    """values are fractions, not whole numbers"""

    def __post_init__(self) -> None:
        known = self.use in get_args(Use) and (isinstance(self.below, int) or self.below in get_args(Bound))
        if not known or (self.use in ("position", "start") and not self.of):
            uses, bounds = ", ".join(get_args(Use)), ", ".join(get_args(Bound)[1:])
            raise ValueError(f"expected a use of {uses}, places with `of`, below a number or {bounds}, got {self!r}")

    def __str__(self) -> str:
        return f"{self.use}({self.of})" if self.of else self.use


IDS: Final = Role("ids")
ROW: Final = Role("row")
WEIGHT: Final = Role("weight")
UNDO: Final = Role("undo")
PLACES: Final = Role("position", "input_ids")
STARTS: Final = Role("start", "input_ids")


@dataclass(frozen=True, slots=True)
class Feature:
    """A list column that an objective, a task or a grouping declares and a manifest records.

    `dtype` "ids" means uint16 for vocabularies up to 65,536 entries, else uint32; weights are float32, all other values
    unsigned integers. A scalar is stored as a list of one value.
    """

    name: str
    dtype: Literal["ids", "uint8", "uint16", "uint32", "float32"]
    role: Role
    description: str
