"""Compression of trained models: removed layers, heads and rows, masked and quantized weights.

One file per method.
"""

from clozeline.extensions.compression.methods._method import Batch, Compressed, Method

__all__ = ["Batch", "Compressed", "Method"]
