"""Relations among queries, among keys and among values of one layer (MiniLM, arXiv 2002.10957 and 2012.15828)."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.model.compression.distillation.losses import DistillationLoss, LossOptions
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.layers.masks import BLOCKED


@config_class
class RelationOptions(LossOptions):
    """Options of `Relations`."""

    of: tuple[Literal["queries", "keys", "values"], ...] = ("queries", "keys", "values")
    """vectors whose relations are compared"""
    relation_heads: Annotated[int, Field(ge=1)] | None = None
    """heads into which the vectors of both models are cut again, a divisor of their widths; null:
    the teacher's"""
    teacher_layer: Annotated[int, Field(ge=1)] | None = None
    """layer of the teacher, from 1; null: the last. The paper takes layer 21 of 24"""


class RelationsLoss(DistillationLoss):
    """KL(R_t ‖ R_s) of R = softmax(X Xᵀ / √width) over visible tokens, for X = Q, K, V of the student's last layer.

    A mean over relation heads and real tokens, added up over Q, K and V. Heads and widths of the
    models may differ.
    """

    Options: ClassVar = RelationOptions
    reads_attention: ClassVar = True

    def __init__(
        self, options: RelationOptions, student: ModelConfig, teacher: ModelConfig
    ) -> None:
        super().__init__(options, student, teacher)
        there = options.teacher_layer or teacher.layers
        if there > teacher.layers:
            raise ConfigurationError(
                "distil.losses.relations.teacher_layer: the teacher has the layers 1 to "
                f"{teacher.layers}, got {there}"
            )
        self.of = options.of
        self.reads = (*options.of, "visible")
        self.layers = {student.layers: there}
        self.heads = options.relation_heads or teacher.attention_heads
        for side, model in (("student", student), ("teacher", teacher)):
            heads = {
                model.attention_heads if name == "queries" else model.key_value_heads
                for name in self.of
            }
            for width in sorted(count * model.head_width for count in heads):
                if width % self.heads:
                    raise ConfigurationError(
                        f"distil.losses.relations.relation_heads: {self.heads} heads do not "
                        "divide the vectors of the "
                        f"{side}, {width} wide: set it to a divisor of the widths of both models"
                    )

    def forward(
        self, student: Mapping[str, Tensor], teacher: Mapping[str, Tensor], weights: Tensor
    ) -> Tensor:
        ((here, there),) = self.layers.items()
        visible = student[f"visible_{here}"] & teacher[f"visible_{there}"]
        total = weights.new_zeros(())
        for name in self.of:
            ours = _log_relations(student[f"{name}_{here}"], self.heads, visible)
            theirs = _log_relations(teacher[f"{name}_{there}"], self.heads, visible)
            divergence = F.kl_div(ours, theirs, log_target=True, reduction="none").sum(
                -1
            )  # [B, heads, T]
            total = total + (divergence.mean(1) * weights).sum()
        return total


def _log_relations(vectors: Tensor, heads: int, visible: Tensor) -> Tensor:
    """Return the log of softmax(X Xᵀ / √width) of each head, [B, T, heads x width] to fp32 [B, heads, T, T]."""
    parts = vectors.float().view(*vectors.shape[:-1], heads, -1).transpose(1, 2)
    scores = parts @ parts.mT * parts.shape[-1] ** -0.5
    return scores.masked_fill(~visible, BLOCKED).log_softmax(-1)
