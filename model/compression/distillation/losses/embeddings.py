"""Distance between the outputs of the embeddings (TinyBERT, arXiv 1909.10351, equation 9)."""

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from clozeline.model.compression.distillation.losses import DistillationLoss, LossOptions
from clozeline.model.compression.distillation.losses._distillation_loss import project
from clozeline.model.configuration.model_config import ModelConfig


class Embeddings(DistillationLoss):
    """MSE(E_s W_e, E_t), a mean over real tokens and the teacher's width; W_e is missing where the widths are equal."""

    by_layer: ClassVar = True

    def __init__(self, options: LossOptions, student: ModelConfig, teacher: ModelConfig) -> None:
        super().__init__(options, student, teacher)
        self.layers = {0: 0}
        self.project = project(student, teacher)

    def forward(self, student: Mapping[str, Tensor], teacher: Mapping[str, Tensor], weights: Tensor) -> Tensor:
        squares = (self.project(student["state_0"]).float() - teacher["state_0"].float()).square()
        return (squares.mean(-1) * weights).sum()
