"""Configuration of families without attention, and the rows that they cannot read."""

from typing import ClassVar, Final

from clozeline.configuration.config import config_class
from clozeline.model.configuration.key_types import Width
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.position import PositionConfig

READ_KEYS: Final = frozenset({"vocab_multiple", "init_from", "init.std", "adapter"})
"""Keys of every model that each recurrent family reads."""
PARTS: Final = dict.fromkeys(
    ("document_ids", "prefix_length"),
    "expected rows of one text, because a recurrent family reads a row from start to end; corrupt "
    "with `grouping: document`, or with `cross_documents: true` and no prefix",
)
"""Tensors of rows whose parts are read separately: packed documents, or a prefix."""


@config_class
class RecurrentOptions(ModelConfig):
    """Configuration of a family without attention; the keys of attention keep their defaults."""

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
        if unsupported := sorted(self.heads.keys() - self.HEADS):
            supported = ", ".join(sorted(self.HEADS))
            raise ValueError(
                f"heads: the family {self.family} supports {supported}, got '{unsupported[0]}'"
            )
