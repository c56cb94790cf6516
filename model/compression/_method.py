"""The interface of compression methods: a model in, a smaller one out."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from torch import Tensor

from clozeline.model.checkpoints import Checkpoint
from clozeline.model.configuration.model_config import Quantization

Batch: TypeAlias = Mapping[str, Tensor]
"""Tensors of rows with their labels, as the heads of the model read them in training."""


@dataclass(frozen=True)
class Compressed:
    """A smaller model."""

    checkpoint: Checkpoint
    """the model as every reader sees it: its configuration and parameters; a quantized one has integers of torchao as
    some weights"""
    lines: tuple[str, ...]
    """removed parts, for people"""


class Method(ABC):
    """A way to make a trained model smaller, without training it.

    Args:
        options: of the method.
    """

    Options: ClassVar[type]
    """Options, a frozen pydantic dataclass; the docstring of each field gives unit and range."""
    claim: ClassVar[str]
    """Result that the paper reports, with its arXiv id; the row shows it next to what was measured."""
    calibrates: ClassVar[bool] = False
    """`compress` reads batches of training rows, if there are any."""
    quantization: ClassVar[Quantization | None] = None
    """Integers that the method makes, which only a folder of transformers holds."""

    def __init__(self, options: Any) -> None:
        self.options = options

    @abstractmethod
    def compress(self, checkpoint: Checkpoint, batches: Sequence[Batch]) -> Compressed:
        """Return the smaller model; the given one stays as it is.

        A tensor that does not change is shared, not copied, so that both take at most twice the memory of the first.

        Args:
            checkpoint: the model, with all of its heads.
            batches: calibration rows, in the order of the set; none unless the method reads them.

        Raises:
            ConfigurationError: the model has nothing of what the options remove.
        """
