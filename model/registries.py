"""The registries of the model: a folder with one algorithm per file, and its interface."""

from typing import TYPE_CHECKING, Annotated, TypeAlias

from clozeline.registry import Component, Registry

if TYPE_CHECKING:  # help lists algorithms without their interfaces, which import torch
    from clozeline.model.adapters import Adapter
    from clozeline.model.checkpoints.sources import ModelSource
    from clozeline.model.configuration.head_keys import HeadKey
    from clozeline.model.families import ModelFamily
    from clozeline.model.heads import Head

FAMILIES: Registry["ModelFamily"] = Registry("clozeline.model.families", "ModelFamily")
"""Model families."""
HEADS: Registry["Head"] = Registry("clozeline.model.heads", "Head", suffix="Head")
"""Heads: predictions and their losses."""
HEAD_KEYS: Registry["HeadKey"] = Registry(
    "clozeline.model.configuration.head_keys", "HeadKey", suffix="Config", address="keys/head"
)
"""Keys that extensions add to heads with one answer for a row."""
ADAPTERS: Registry["Adapter"] = Registry("clozeline.model.adapters", "Adapter")
"""Adapters, such as LoRA."""
MODEL_SOURCES: Registry["ModelSource"] = Registry(
    "clozeline.model.checkpoints.sources", "ModelSource", suffix="Source", address="model_sources"
)
"""Published forms of models, which extensions read and write."""

AdapterComponent: TypeAlias = Annotated[Component["Adapter"], ADAPTERS]
"""Type of a field that names an adapter."""
