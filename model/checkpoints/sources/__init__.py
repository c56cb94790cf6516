"""Published forms of models: their folders, and what a model of ours becomes in them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from clozeline.model.checkpoints.checkpoint import Checkpoint
from clozeline.model.configuration.head import HeadOptions
from clozeline.model.configuration.model_config import ModelConfig


@dataclass(frozen=True)
class NewModel:
    """A model before its training."""

    config: ModelConfig
    vocab_size: int
    token_ids: Mapping[str, Any]
    """`pad_token_id` and so on"""
    max_length: int = 0
    """tokens of the longest row; 0: not known"""
    tokenizer: Path | None = None
    """folder of its tokenizer; None if it is missing"""
    continues: tuple[Path, ...] = ()
    """folders that may have what it was published with, in order: its own, and its source"""


class ModelSource(ABC):
    """A published form of models."""

    expected: ClassVar[str]
    """what a folder has, for messages"""

    @abstractmethod
    def holds(self, folder: Path) -> bool:
        """Return whether a folder has this form."""

    @abstractmethod
    def read(self, folder: Path, *, strict: bool, quantized: bool) -> Checkpoint:
        """Read such a folder; see `read_checkpoint`."""

    @abstractmethod
    def keep_origin(self, source: Path, run: Path) -> None:
        """Keep in a run what an export needs of the model that the run continues."""

    @abstractmethod
    def find_head(self, config: ModelConfig, token_ids: Mapping[str, object]) -> HeadOptions | None:
        """Return the only head of a model as this form has it on such a body; None: it has none."""

    @abstractmethod
    def describe_export(self, model: NewModel) -> list[str]:
        """Return the lines on what an export of a model will be."""

    @abstractmethod
    def export_run(self, run: Path, output: Path) -> None:
        """Export a run, unless it was since its last step."""
