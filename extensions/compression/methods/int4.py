"""Store weights as int4 in groups of inputs, rounded to nearest (baseline of arXiv 2210.17323)."""

from clozeline.extensions.compression.methods._method import QuantizationMethod


class Int4Method(QuantizationMethod):
    """Round the linear maps of the body to int4, with a scale per 32 inputs; each takes a byte."""

    quantization = "int4"
    published_result = (
        "rounded to the nearest, OPT-175B at 4 bits: perplexity 8.34 to 10.54 (2210.17323)"
    )
