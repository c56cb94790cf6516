"""Relations of queries, keys and values in a layer (MiniLM, arXiv 2002.10957, 2012.15828)."""

from collections.abc import Mapping
from typing import Literal

from torch import Tensor
from torch.nn import functional as F

from clozeline.configuration.config import Positive, config_class
from clozeline.errors import ConfigurationError
from clozeline.extensions.compression.distillation.losses import DistillationLoss, LossOptions
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.layers.masks import BLOCKED


@config_class
class RelationOptions(LossOptions):
    """Options of `RelationsLoss`."""

    of: tuple[Literal["queries", "keys", "values"], ...] = ("queries", "keys", "values")
    """vectors whose relations are compared"""
    relation_heads: Positive | None = None
    """number of heads into which the vectors of both models are split, a divisor of their widths;
    null: the teacher's number"""
    teacher_layer: Positive | None = None
    """layer of the teacher, from 1; null: the last. The paper uses layer 21 of 24"""


class RelationsLoss(DistillationLoss):
    """KL(R_t ‖ R_s) of R = softmax(X Xᵀ / √width) for X = Q, K, V of the student's last layer.

    It is a mean over relation heads and real tokens, summed over Q, K and V. Heads and widths of
    the models may differ.
    """

    Options = RelationOptions
    reads_attention = True

    def __init__(
        self, options: RelationOptions, student: ModelConfig, teacher: ModelConfig
    ) -> None:
        super().__init__(options, student, teacher)
        teacher_layer = options.teacher_layer or teacher.layers
        if teacher_layer > teacher.layers:
            raise ConfigurationError(
                "distil.losses.relations.teacher_layer: the teacher has the layers 1 to "
                f"{teacher.layers}, got {teacher_layer}"
            )

        self.of = options.of
        self.reads = (*options.of, "visible")
        self.layers = {student.layers: teacher_layer}
        self.heads = options.relation_heads or teacher.attention_heads

        # the vectors of both models must split into relation heads
        for side, model in (("student", student), ("teacher", teacher)):
            heads = {
                model.attention_heads if name == "queries" else model.key_value_heads
                for name in self.of
            }
            for width in sorted(count * model.head_width for count in heads):
                if width % self.heads:
                    raise ConfigurationError(
                        f"distil.losses.relations.relation_heads: vectors of the {side} are "
                        f"{width} wide, not a multiple of {self.heads} heads: set it to a divisor "
                        "of the widths of both models"
                    )

    def forward(
        self, student: Mapping[str, Tensor], teacher: Mapping[str, Tensor], weights: Tensor
    ) -> Tensor:
        ((student_layer, teacher_layer),) = self.layers.items()
        visible = student[f"visible_{student_layer}"] & teacher[f"visible_{teacher_layer}"]
        total = weights.new_zeros(())
        for name in self.of:
            log_student = _log_relations(student[f"{name}_{student_layer}"], self.heads, visible)
            log_teacher = _log_relations(teacher[f"{name}_{teacher_layer}"], self.heads, visible)
            divergence = F.kl_div(log_student, log_teacher, log_target=True, reduction="none")
            divergence = divergence.sum(-1)  # [B, heads, T]
            total = total + (divergence.mean(1) * weights).sum()
        return total


def _log_relations(vectors: Tensor, heads: int, visible: Tensor) -> Tensor:
    """Return log softmax(X Xᵀ / √width), [B, T, heads x width] to fp32 [B, heads, T, T]."""
    parts = vectors.float().view(*vectors.shape[:-1], heads, -1).transpose(1, 2)
    scores = parts @ parts.mT * parts.shape[-1] ** -0.5
    return scores.masked_fill(~visible, BLOCKED).log_softmax(-1)
