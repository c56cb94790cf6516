"""Adapters: few parameters that are trained while the model stays frozen.

One file each, chosen by `model.adapter`.
"""

from clozeline.model.adapters._adapter import Adapter, AdapterOptions

__all__ = ["Adapter", "AdapterOptions"]
