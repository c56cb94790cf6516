"""Number formats of quantized weights. One file each, chosen by `model.quantization`."""

from clozeline.model.quantization.formats._format import Format, FormatOptions

__all__ = ["Format", "FormatOptions"]
