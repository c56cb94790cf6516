"""Interface of distillation losses, and the layer map that several of them have."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, ClassVar

from pydantic import Field
from torch import Tensor, nn

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.registry import find
from clozeline.train.distillation.layer_map import check_layers


@config_class
class LossOptions:
    """Options that every loss has."""

    weight: Annotated[float, Field(ge=0.0)] = 1.0
    """factor of the mean loss"""


@config_class
class LayerMapOptions(LossOptions):
    """Options of a loss that compares layers."""

    layers: dict[int, int] = Field(default_factory=dict)
    """layer of the teacher for each layer of the student: {1: 2, 2: 4}; layer 1 is the first, 0 the output of the
    embeddings; default: spread uniformly"""


class DistillationLoss(nn.Module, ABC):
    """A sum over labels or tokens of a distance between student and teacher; its parameters are not exported.

    Args:
        options: of the loss.
        student: configuration of the student.
        teacher: configuration of the teacher; None: none is in memory.

    Raises:
        ConfigurationError: the loss cannot compare these two; the message says what to change.
    """

    Options: ClassVar[type[LossOptions]] = LossOptions
    live: ClassVar[bool] = True
    """It needs a teacher in memory; False: scores that are stored with the data will do."""
    by_layer: ClassVar[bool] = False
    """With `distil.progressive` it compares one layer at a time; other losses count after the last layer."""
    reads_attention: ClassVar[bool] = False
    """It reads queries, keys and values of layers."""
    reads: Sequence[str] = ("state",)
    """Kinds of tensors that it reads of each layer, as `observation` names them."""
    head: str | None = None
    """The head over whose labels the loss is a mean; None: the mean is over real tokens."""
    layers: Mapping[int, int] = MappingProxyType({})
    """Layers that are compared: the student's to the teacher's, 0 for embeddings."""

    def __init__(self, options: LossOptions, student: ModelConfig, teacher: ModelConfig | None) -> None:
        super().__init__()
        self.options = options

    @classmethod
    def key(cls) -> str:
        """Return the name of its file."""
        return cls.__module__.rpartition(".")[2]

    @property
    def of_student(self) -> frozenset[str]:
        """The tensors of the student that it reads."""
        return frozenset(f"{kind}_{layer}" for kind in self.reads for layer in self.layers)

    @property
    def of_teacher(self) -> frozenset[str]:
        """The tensors of the teacher in memory that it reads."""
        return frozenset(f"{kind}_{layer}" for kind in self.reads for layer in self.layers.values())

    @abstractmethod
    def forward(self, student: Mapping[str, Tensor], teacher: Mapping[str, Tensor], weights: Tensor) -> Tensor:
        """Return the weighted sum of the loss, an fp32 scalar.

        Args:
            student: tensors of the student by name.
            teacher: tensors of the teacher by name, or the stored `ids` and `weights`.
            weights: fp32, of labels [N] or tokens [B, T]; 0 where nothing is compared.
        """

    def _map_layers(self, options: LayerMapOptions, student: ModelConfig, teacher: ModelConfig, first: int) -> None:
        """Set `layers`, and refuse models whose layers have no states of all tokens."""
        refuse_unlayered(self.key(), student, teacher)
        key = f"distil.losses.{self.key()}.layers"
        self.layers = check_layers(options.layers, student.layers, teacher.layers, key, first)


def refuse_unlayered(loss: str, student: ModelConfig, teacher: ModelConfig) -> None:
    """Refuse models whose layers have no states of all tokens."""
    for side, model in (("student", student), ("teacher", teacher)):
        if model.share.halts:
            raise ConfigurationError(
                f"distil.losses: {loss} compares layers, and tokens of the {side} stop at different ones "
                "(model.share.universal): take the loss scores"
            )
        if not find("clozeline.model.families", model.family).layered:
            raise ConfigurationError(
                f"distil.losses: {loss} compares layers of one stack, and the {side}'s family {model.family} has "
                "none: take the loss scores"
            )


def project(student: ModelConfig, teacher: ModelConfig) -> nn.Module:
    """Return a trainable map from the student's states to the teacher's width; the identity if they are equal."""
    return nn.Identity() if student.dim == teacher.dim else nn.Linear(student.dim, teacher.dim, bias=False)


def add_up(distances: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted sum of the mean distance of each token, [B, T, width] and [B, T] to an fp32 scalar."""
    return (distances.mean(-1) * weights).sum()
