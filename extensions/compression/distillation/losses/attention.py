"""Distance between attention scores (TinyBERT, arXiv 1909.10351, equation 7)."""

from collections.abc import Mapping

from torch import Tensor

from clozeline.extensions.compression.distillation.losses import DistillationLoss, LayerMapOptions
from clozeline.extensions.compression.distillation.losses._distillation_loss import map_layers
from clozeline.model.configuration.model_config import ModelConfig


class AttentionLoss(DistillationLoss):
    """MSE(A_s, A_t) of scores before the softmax, summed over layers.

    It is a mean over heads, real tokens, and the keys that they see.

    A key that a query does not see has no score and adds nothing.
    """

    Options = LayerMapOptions
    by_layer = True
    reads_attention = True
    compares_heads = True
    reads = ("attention", "visible")

    def __init__(
        self, options: LayerMapOptions, student: ModelConfig, teacher: ModelConfig
    ) -> None:
        super().__init__(options, student, teacher)
        self.layers = map_layers(
            options.layers, student.layers, teacher.layers, "distil.losses.attention.layers"
        )

    def distance(self, student: Mapping[str, Tensor], teacher: Mapping[str, Tensor]) -> Tensor:
        visible = student["visible"] & teacher["visible"]  # [B or 1, 1, T, T]
        squares = (student["attention"] - teacher["attention"].float()).square() * visible
        # mean over keys, then over heads
        return squares.sum(-1).mean(1) / visible.sum(-1).clamp(min=1)[:, 0]
