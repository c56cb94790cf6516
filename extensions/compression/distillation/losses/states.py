"""Distance between the states of layers (TinyBERT, arXiv 1909.10351, equation 8)."""

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from clozeline.extensions.compression.distillation.losses import (
    DistillationLoss,
    LayerMapOptions,
    LossOptions,
)
from clozeline.extensions.compression.distillation.losses._distillation_loss import (
    map_layers,
    project,
)
from clozeline.model.configuration.model_config import ModelConfig


class StatesLoss(DistillationLoss):
    """MSE(H_s W_h, H_t) summed over layers, averaged over real tokens and the teacher's width.

    All layers share one matrix W_h, which is missing if the widths are equal.
    """

    Options: ClassVar[type[LossOptions]] = LayerMapOptions
    by_layer = True

    def __init__(
        self, options: LayerMapOptions, student: ModelConfig, teacher: ModelConfig
    ) -> None:
        super().__init__(options, student, teacher)
        key = "distil.losses.states.layers"
        self.layers = map_layers(options.layers, student.layers, teacher.layers, key, first=0)
        self.project = project(student, teacher)

    def distance(self, student: Mapping[str, Tensor], teacher: Mapping[str, Tensor]) -> Tensor:
        difference = self.project(student["state"]).float() - teacher["state"].float()
        return difference.square().mean(-1)
