"""The registry of types of published models."""

from typing import TYPE_CHECKING

from clozeline.registry import Registry

if TYPE_CHECKING:
    from clozeline.extensions.published.conversion.key_map import KeyMap

MODEL_TYPES: Registry["KeyMap"] = Registry(
    "clozeline.extensions.published.model_types", "KeyMap", named_by="model_type"
)
"""Types of published models, by the `model_type` of their `config.json`."""
