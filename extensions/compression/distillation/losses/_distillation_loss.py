"""Interface of distillation losses, and the layer map that several of them use."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, ClassVar

from pydantic import Field
from torch import Tensor, nn

from clozeline import plugins
from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.model.configuration.capabilities import EAGER_LAYERS, LOGITS, Declared, Part
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.registries import FAMILIES


@config_class
class LossOptions:
    """Options of every loss."""

    weight: Annotated[float, Field(ge=0.0)] = 1.0
    """factor of the mean loss"""


@config_class
class LayerMapOptions(LossOptions):
    """Options of a loss that compares layers."""

    layers: dict[int, int] = Field(default_factory=dict)
    """the teacher's layer for each compared layer of the student: {1: 2, 2: 4}; layer 1 is the
    first, 0 the output of the embeddings; default: spread uniformly"""


class DistillationLoss(Declared, nn.Module):
    """A distance between student and teacher, summed over labels or tokens.

    Its parameters are not exported.

    Args:
        options: options of the loss.
        student: configuration of the student.
        teacher: configuration of the teacher; None: no teacher is in memory.

    Raises:
        ConfigurationError: the loss cannot compare these two; the message says what to change.
    """

    Options: ClassVar[type[LossOptions]] = LossOptions
    needs_teacher: ClassVar[bool] = True
    """Whether it needs a teacher in memory; False: scores that are stored with the data are
    enough."""
    by_layer: ClassVar[bool] = False
    """Whether `distil.progressive` applies it to one layer at a time; other losses count after the
    last layer."""
    reads_attention: ClassVar[bool] = False
    """Whether it reads queries, keys and values of layers."""
    compares_dimensions: ClassVar[bool] = False
    """Whether it compares states dimension by dimension, which must have one width."""
    compares_heads: ClassVar[bool] = False
    """Whether it compares attention head by head; both models must have the same number of
    heads."""
    reads: Sequence[str] = ("state",)
    """Types of tensors that it reads from each layer, as `observation` names them."""
    head: str | None = None
    """Head whose labels the loss is averaged over; None: it is averaged over real tokens."""
    layers: Mapping[int, int] = MappingProxyType({})
    """Compared layers: the student's layer to the teacher's; 0 is the embeddings."""

    def __init__(
        self, options: LossOptions, student: ModelConfig, teacher: ModelConfig | None
    ) -> None:
        super().__init__()
        self.options = options
        for side, model in (("student", student), ("teacher", teacher)):
            if model is not None and self.needs_teacher:
                self._check_layers(side, model)
        if teacher is not None:
            self._check_sizes(student, teacher)

    def _check_sizes(self, student: ModelConfig, teacher: ModelConfig) -> None:
        if self.compares_dimensions and student.dim != teacher.dim:
            raise ConfigurationError(
                f"distil.losses: {self.key()} needs states of one width, but the student has "
                f"{student.dim} and the teacher {teacher.dim}: use the loss states, which projects "
                "the student's to the teacher's width"
            )

        if self.compares_heads and student.attention_heads != teacher.attention_heads:
            raise ConfigurationError(
                f"distil.losses: {self.key()} compares head by head, but the student has "
                f"{student.attention_heads} heads and the teacher {teacher.attention_heads}: use "
                f"the loss relations, or set model.attention_heads={teacher.attention_heads}"
            )

    @classmethod
    def part(cls, key: str) -> Part:
        """Return the part of a run that it is, by what it reads inside compiled code."""
        part = super().part(key)
        layers = (EAGER_LAYERS,) if cls.reads_attention else ()
        logits = () if cls.needs_teacher else (LOGITS,)
        return replace(part, needs=(*part.needs, *layers, *logits))

    @classmethod
    def key(cls) -> str:
        """Return the name of its file."""
        return plugins.name_of(cls)

    @property
    def student_tensors(self) -> frozenset[str]:
        """Names of the student's tensors that it reads."""
        return frozenset(f"{kind}_{layer}" for kind in self.reads for layer in self.layers)

    @property
    def teacher_tensors(self) -> frozenset[str]:
        """Names of the tensors that it reads from a teacher in memory."""
        return frozenset(f"{kind}_{layer}" for kind in self.reads for layer in self.layers.values())

    def distance(self, student: Mapping[str, Tensor], teacher: Mapping[str, Tensor]) -> Tensor:
        """Return the distance of each token, fp32 [B, T], from the tensors of one layer."""
        raise NotImplementedError

    def forward(
        self, student: Mapping[str, Tensor], teacher: Mapping[str, Tensor], weights: Tensor
    ) -> Tensor:
        """Return the weighted sum of the loss over all compared layers, an fp32 scalar.

        Args:
            student: tensors of the student by name.
            teacher: tensors of the teacher by name, or the stored `ids` and `weights`.
            weights: fp32 weights of labels [N] or tokens [B, T]; 0 where nothing is compared.
        """
        total = weights.new_zeros(())
        for student_layer, teacher_layer in self.layers.items():
            student_part = {name: student[f"{name}_{student_layer}"] for name in self.reads}
            teacher_part = {name: teacher[f"{name}_{teacher_layer}"] for name in self.reads}
            total = total + (self.distance(student_part, teacher_part) * weights).sum()
        return total

    def _check_layers(self, side: str, model: ModelConfig) -> None:
        """Raise ConfigurationError if the layers lack states of all tokens, or query-key scores."""
        # a family without one stack of layers, or with other attention
        if not FAMILIES.load_class(model.family).layered:
            raise ConfigurationError(
                f"distil.losses: {self.key()} compares layers of one stack, but the {side}'s "
                f"family {model.family} has none: use the loss scores"
            )

        if self.reads_attention and model.position.disentangled is not None:
            raise ConfigurationError(
                f"distil.losses: {self.key()} compares products of queries and keys, but the "
                f"{side} has disentangled attention (model.position.disentangled): use the loss "
                "states"
            )


def map_layers(
    layers: Mapping[int, int], student: int, teacher: int, key: str, first: int = 1
) -> dict[int, int]:
    """Return a map from layers of the student to layers of the teacher, in the student's order.

    By default, it is the uniform map g(m) = m x teacher / student, rounded down, of TinyBERT (arXiv
    1909.10351).

    Args:
        layers: the student's layer to the teacher's, or empty.
        student: number of layers of the student.
        teacher: number of layers of the teacher.
        key: configuration key of the map, for errors.
        first: lowest layer that can be named; 0 is the output of the embeddings.

    Raises:
        ConfigurationError: a layer does not exist.

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
    """Return a trainable map to the teacher's width; the identity if the widths are equal."""
    return (
        nn.Identity()
        if student.dim == teacher.dim
        else nn.Linear(student.dim, teacher.dim, bias=False)
    )
