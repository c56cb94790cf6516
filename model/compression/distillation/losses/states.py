"""Distance between the states of layers (TinyBERT, arXiv 1909.10351, equation 8)."""

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from clozeline.model.compression.distillation.losses import (
    DistillationLoss,
    LayerMapOptions,
    LossOptions,
)
from clozeline.model.compression.distillation.losses._distillation_loss import map_layers, project
from clozeline.model.configuration.model_config import ModelConfig


class StatesLoss(DistillationLoss):
    """Sum over layers of MSE(H_s W_h, H_t), a mean over real tokens and the teacher's width.

    W_h is one matrix for all layers, and missing where the widths are equal.
    """

    Options: ClassVar[type[LossOptions]] = LayerMapOptions
    by_layer: ClassVar = True

    def __init__(
        self, options: LayerMapOptions, student: ModelConfig, teacher: ModelConfig
    ) -> None:
        super().__init__(options, student, teacher)
        key = "distil.losses.states.layers"
        self.layers = map_layers(options.layers, student.layers, teacher.layers, key, first=0)
        self.project = project(student, teacher)

    def distance(self, ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> Tensor:
        return (self.project(ours["state"]).float() - theirs["state"].float()).square().mean(-1)
