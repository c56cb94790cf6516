"""Store weights as int8 and round what they multiply, with a scale per token (arXiv 1910.06188)."""

from typing import ClassVar

from clozeline.model.compression.methods._method import QuantizationMethod


class Int8DynamicMethod(QuantizationMethod):
    """Round the linear maps of the body to int8; each product rounds its inputs per token, and multiplies integers."""

    quantization = "int8_dynamic"
    claim: ClassVar = (
        "a quarter of the bytes, 99 % of the score after training with it (1910.06188)"
    )
