"""Adapters: a few additional parameters train while the model stays frozen.

Each has a file, selected by `model.adapter`.
"""

from clozeline.model.adapters._adapter import Adapter, AdapterOptions
from clozeline.model.adapters._attachment import Adapters

__all__ = ["Adapter", "AdapterOptions", "Adapters"]
