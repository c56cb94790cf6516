"""Distance between scores of attention (TinyBERT, arXiv 1909.10351, equation 7)."""

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from clozeline.model.compression.distillation.losses import DistillationLoss, LayerMapOptions
from clozeline.model.compression.distillation.losses._distillation_loss import map_layers
from clozeline.model.configuration.model_config import ModelConfig


class AttentionLoss(DistillationLoss):
    """Sum over layers of MSE(A_s, A_t), scores before the softmax; a mean over heads, real tokens and keys they see.

    A key that a query does not see has no score, and adds nothing.
    """

    Options: ClassVar = LayerMapOptions
    by_layer: ClassVar = True
    reads_attention: ClassVar = True
    compares_heads: ClassVar = True
    reads = ("attention", "visible")

    def __init__(
        self, options: LayerMapOptions, student: ModelConfig, teacher: ModelConfig
    ) -> None:
        super().__init__(options, student, teacher)
        self.layers = map_layers(
            options.layers, student.layers, teacher.layers, "distil.losses.attention.layers"
        )

    def distance(self, ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> Tensor:
        visible = ours["visible"] & theirs["visible"]  # [B or 1, 1, T, T]
        squares = (ours["attention"] - theirs["attention"].float()).square() * visible
        return (
            squares.sum(-1).mean(1) / visible.sum(-1).clamp(min=1)[:, 0]
        )  # mean over keys and heads
