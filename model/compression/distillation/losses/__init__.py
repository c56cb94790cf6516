"""Losses of distillation, one per file: each compares what a student and its teacher compute for the same batch."""

from clozeline.model.compression.distillation.losses._distillation_loss import (
    DistillationLoss,
    LayerMapOptions,
    LossOptions,
)

__all__ = ["DistillationLoss", "LayerMapOptions", "LossOptions"]
