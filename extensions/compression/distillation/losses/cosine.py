"""Angle between the last states (DistilBERT, arXiv 1910.01108)."""

from collections.abc import Mapping

from torch import Tensor
from torch.nn import functional as F

from clozeline.extensions.compression.distillation.losses import DistillationLoss, LossOptions
from clozeline.model.configuration.model_config import ModelConfig


class CosineLoss(DistillationLoss):
    """1 - cos(H_s, H_t) of the states that heads read, averaged over real tokens."""

    compares_dimensions = True

    def __init__(self, options: LossOptions, student: ModelConfig, teacher: ModelConfig) -> None:
        super().__init__(options, student, teacher)
        self.layers = {student.layers: teacher.layers}

    def distance(self, student: Mapping[str, Tensor], teacher: Mapping[str, Tensor]) -> Tensor:
        return 1.0 - F.cosine_similarity(student["state"].float(), teacher["state"].float(), dim=-1)
