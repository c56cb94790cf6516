"""Losses of distillation, one per file: each compares a student with its teacher on a batch."""

from clozeline.extensions.compression.distillation.losses._distillation_loss import (
    DistillationLoss,
    LayerMapOptions,
    LossOptions,
)

__all__ = ["DistillationLoss", "LayerMapOptions", "LossOptions"]
