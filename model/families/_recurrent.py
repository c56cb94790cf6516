"""Configuration of families without attention, and the rows that they cannot read."""

import dataclasses
from collections.abc import Iterator
from typing import ClassVar, Final

from clozeline.configuration.config import config_class
from clozeline.model.configuration.key_types import Width
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.position import PositionConfig

_READ: Final = frozenset({"vocab_multiple", "init_from", "init.std", "adapter"})
PARTS: Final = dict.fromkeys(
    ("document_ids", "prefix_length"),
    "expected rows of one text, because a recurrent family reads a row from start to end; corrupt "
    "with `grouping: document`, or with `cross_documents: true` and no prefix",
)
"""Tensors of rows whose parts are read separately: packed documents, or a prefix."""


@config_class
class RecurrentOptions(ModelConfig):
    """Configuration of a family without attention; the keys of attention keep their defaults."""

    READS: ClassVar[frozenset[str]]
    """Keys of every model that the family reads, in addition to its sizes."""
    HEADS: ClassVar[frozenset[str]]
    """Heads that read its states."""

    attention_heads: Width = 1
    """Not used: there is no attention."""
    ffn_dim: Width = 1
    """Not used: there is no feed-forward block."""
    position: PositionConfig = PositionConfig(kind="none")
    """Not used: the recurrence reads tokens in order, and rows may have any length."""
    cell_dim: Width
    """Width of the cells."""

    def __post_init__(self) -> None:
        super().__post_init__()
        inherited = {field.name for field in dataclasses.fields(ModelConfig)}

        for field in dataclasses.fields(self):
            if field.name in inherited and field.default is not dataclasses.MISSING:
                for key in _diff_keys(getattr(self, field.name), field.default, field.name):
                    if key not in _READ | self.READS:
                        raise ValueError(
                            f"{key}: the family {self.family} does not read this key; remove it"
                        )

        if unsupported := sorted(self.heads.keys() - self.HEADS):
            supported = ", ".join(sorted(self.HEADS))
            raise ValueError(
                f"heads: the family {self.family} supports {supported}, got '{unsupported[0]}'"
            )


def _diff_keys(value: object, default: object, name: str) -> Iterator[str]:
    if dataclasses.is_dataclass(value) and dataclasses.is_dataclass(default):
        for part in dataclasses.fields(value):
            yield from _diff_keys(
                getattr(value, part.name), getattr(default, part.name), f"{name}.{part.name}"
            )
    elif value != default:
        yield name
