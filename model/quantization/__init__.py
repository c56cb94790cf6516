"""Quantized weights: number formats, modules that compute with them, and calibrated rounding."""

from clozeline.model.quantization.attach import attach_format, quantizable_modules
from clozeline.model.quantization.modules import (
    INTEGERS,
    SCALES,
    count_quantized,
    share_integers,
    stored_modules,
    stored_tensors,
)

__all__ = [
    "INTEGERS",
    "SCALES",
    "attach_format",
    "count_quantized",
    "quantizable_modules",
    "share_integers",
    "stored_modules",
    "stored_tensors",
]
