"""Interface of distillation losses, and the layer map that several of them have."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, ClassVar

from pydantic import Field
from torch import Tensor, nn

from clozeline import plugins
from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.registries import FAMILIES


@config_class
class LossOptions:
    """Options that every loss has."""

    weight: Annotated[float, Field(ge=0.0)] = 1.0
    """factor of the mean loss"""


@config_class
class LayerMapOptions(LossOptions):
    """Options of a loss that compares layers."""

    layers: dict[int, int] = Field(default_factory=dict)
    """layer of the teacher for each layer of the student: {1: 2, 2: 4}; layer 1 is the first, 0 the
    output of the embeddings; default: spread uniformly"""


class DistillationLoss(nn.Module):
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
    """With `distil.progressive` it compares one layer at a time; other losses count after the last
    layer."""
    reads_attention: ClassVar[bool] = False
    """It reads queries, keys and values of layers."""
    compares_dimensions: ClassVar[bool] = False
    """It compares states dimension by dimension: student and teacher have one width."""
    compares_heads: ClassVar[bool] = False
    """It compares attention head by head: student and teacher have as many of them."""
    reads: Sequence[str] = ("state",)
    """Kinds of tensors that it reads of each layer, as `observation` names them."""
    head: str | None = None
    """The head over whose labels the loss is a mean; None: the mean is over real tokens."""
    layers: Mapping[int, int] = MappingProxyType({})
    """Layers that are compared: the student's to the teacher's, 0 for embeddings."""

    def __init__(
        self, options: LossOptions, student: ModelConfig, teacher: ModelConfig | None
    ) -> None:
        super().__init__()
        self.options = options
        for side, model in (("student", student), ("teacher", teacher)):
            if model is not None and self.live:
                self._refuse_other_layers(side, model)
        if teacher is not None:
            self._refuse_other_sizes(student, teacher)

    def _refuse_other_sizes(self, student: ModelConfig, teacher: ModelConfig) -> None:
        if self.compares_dimensions and student.dim != teacher.dim:
            raise ConfigurationError(
                f"distil.losses: {self.key()} needs states of one width, got {student.dim} of the "
                "student and "
                f"{teacher.dim} of the teacher: take the loss states, which maps one to the other"
            )
        if self.compares_heads and student.attention_heads != teacher.attention_heads:
            raise ConfigurationError(
                f"distil.losses: {self.key()} compares head by head, and the student has "
                f"{student.attention_heads} "
                f"heads, the teacher {teacher.attention_heads}: take the loss relations, or set "
                "model.attention_heads="
                f"{teacher.attention_heads}"
            )

    @classmethod
    def key(cls) -> str:
        """Return the name of its file."""
        return plugins.name_of(cls)

    @property
    def of_student(self) -> frozenset[str]:
        """The tensors of the student that it reads."""
        return frozenset(f"{kind}_{layer}" for kind in self.reads for layer in self.layers)

    @property
    def of_teacher(self) -> frozenset[str]:
        """The tensors of the teacher in memory that it reads."""
        return frozenset(f"{kind}_{layer}" for kind in self.reads for layer in self.layers.values())

    def distance(self, ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> Tensor:
        """Return the distance of each token, fp32 [B, T], from tensors of a layer of both by kind, `reads`."""
        raise NotImplementedError

    def forward(
        self, student: Mapping[str, Tensor], teacher: Mapping[str, Tensor], weights: Tensor
    ) -> Tensor:
        """Return the weighted sum of the loss, an fp32 scalar: of the distances of all layers.

        Args:
            student: tensors of the student by name.
            teacher: tensors of the teacher by name, or the stored `ids` and `weights`.
            weights: fp32, of labels [N] or tokens [B, T]; 0 where nothing is compared.
        """
        total = weights.new_zeros(())
        for here, there in self.layers.items():
            ours = {kind: student[f"{kind}_{here}"] for kind in self.reads}
            theirs = {kind: teacher[f"{kind}_{there}"] for kind in self.reads}
            total = total + (self.distance(ours, theirs) * weights).sum()
        return total

    def _refuse_other_layers(self, side: str, model: ModelConfig) -> None:
        """Refuse models whose layers have no states of all tokens, or no products of queries and keys."""
        if model.share.halts:
            raise ConfigurationError(
                f"distil.losses: {self.key()} compares layers, and tokens of the {side} stop at "
                "different ones "
                "(model.share.universal): take the loss scores"
            )
        if not FAMILIES.load_class(model.family).layered:
            raise ConfigurationError(
                f"distil.losses: {self.key()} compares layers of one stack, and the {side}'s "
                f"family {model.family} has "
                "none: take the loss scores"
            )
        if self.reads_attention and model.position.disentangled is not None:
            raise ConfigurationError(
                f"distil.losses: {self.key()} compares products of queries and keys, and the "
                f"{side}'s attention is "
                "disentangled (model.position.disentangled): take the loss states"
            )


def map_layers(
    layers: Mapping[int, int], student: int, teacher: int, key: str, first: int = 1
) -> dict[int, int]:
    """Return a map from layers of the student to those of the teacher, in the order of the student's.

    Without one it is the uniform map g(m) = m x teacher / student of TinyBERT (arXiv 1909.10351),
    rounded down.

    Args:
        layers: student's layer to teacher's, or empty.
        student: layers of the student.
        teacher: layers of the teacher.
        key: of the map, for errors.
        first: lowest layer that can be named; 0 is the output of the embeddings.

    Raises:
        ConfigurationError: a layer is not there.

    Example:
        >>> map_layers({}, 4, 12, "layers")
        {1: 3, 2: 6, 3: 9, 4: 12}
    """
    for side, named, count in (
        ("student", layers.keys(), student),
        ("teacher", layers.values(), teacher),
    ):
        if beyond := sorted(layer for layer in named if not first <= layer <= count):
            raise ConfigurationError(
                f"{key}: the {side} has the layers {first} to {count}, got {beyond[0]}"
            )
    return dict(sorted(layers.items())) or {
        layer: layer * teacher // student for layer in range(1, student + 1)
    }


def project(student: ModelConfig, teacher: ModelConfig) -> nn.Module:
    """Return a trainable map from the student's states to the teacher's width; the identity if they are equal."""
    return (
        nn.Identity()
        if student.dim == teacher.dim
        else nn.Linear(student.dim, teacher.dim, bias=False)
    )
