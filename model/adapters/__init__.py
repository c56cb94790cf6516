"""Adapters: few parameters that are trained beside a frozen model. One file each, chosen by `model.adapter`."""

from model.adapters._adapter import Adapter, AdapterOptions

__all__ = ["Adapter", "AdapterOptions"]
