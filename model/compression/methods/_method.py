"""The interface of compression methods, and what they share: parameters cut to a smaller model."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

from torch import Tensor

from clozeline import plugins
from clozeline.configuration.config import adapter_of, validate
from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import Checkpoint, parameter_shapes
from clozeline.model.configuration.layer import ShareConfig
from clozeline.model.configuration.model_config import ModelConfig, Quantization

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

    @classmethod
    def key(cls) -> str:
        """Return the name of its file, by which `method` chooses it."""
        return plugins.name_of(cls)

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

    def refuse_shared_layers(self, config: ModelConfig) -> None:
        """Refuse layers that share weights: what one layer can spare, another uses."""
        if config.share != ShareConfig():
            raise ConfigurationError(
                f"method={self.key()}: expected layers with weights of their own, got model.share, which uses the same "
                "weights in several layers; train a model without it, or use magnitude"
            )

    def cut(self, checkpoint: Checkpoint, part: Callable[[str], Tensor], **changes: Any) -> Checkpoint:
        """Return the model with other values in its configuration, each parameter by `part` from its name.

        Raises:
            ConfigurationError: the values contradict each other, or a parameter has another shape than they need.
        """
        plain = adapter_of(type(checkpoint.config)).dump_python(checkpoint.config, mode="json", exclude_none=True)
        config: ModelConfig = validate(ModelConfig, {**plain, **changes}, self.key(), "model.")
        tensors = {}
        for name, shape in parameter_shapes(config, checkpoint.vocab_size).items():
            if name in checkpoint.absent:
                continue
            tensor = part(name)
            if tensor.shape != shape:
                raise ConfigurationError(
                    f"{name}: expected shape {list(shape)} in the smaller model, got {list(tensor.shape)}: the family "
                    f"{config.family} cannot be cut like this"
                )
            tensors[name] = tensor
        # tensors that only a class of transformers reads belong to the complete model
        return replace(checkpoint, config=config, tensors=tensors, unread={})
