"""A model type of config.json: its configuration, its tensors and its classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, NamedTuple

from clozeline.errors import ConfigurationError
from clozeline.extensions.published.conversion import configuration, tensor_map
from clozeline.extensions.published.conversion.classes import Classes
from clozeline.extensions.published.conversion.tables import Keys
from clozeline.extensions.published.conversion.task_heads import endings
from clozeline.model.configuration.computed_keys import differences
from clozeline.model.configuration.head import HeadOptions
from clozeline.model.configuration.model_config import ModelConfig


class Problems(NamedTuple):
    """Why a type cannot hold a model."""

    reasons: list[str]
    """our keys, each with the value of the type and the model's; empty: the type holds the model"""
    is_complete: bool = True
    """false: the class refused a key, and later reasons are unknown"""


class KeyMap:
    """A model type.

    Subclasses declare the classes, and tables of keys and names as `Configuration` and `Tensors`.
    """

    model_type: ClassVar[str]
    classes: ClassVar[Classes]
    read_only: ClassVar[str | None] = None
    """Reason why the type can be imported but not exported; None: it can be exported."""

    class Configuration(configuration.Configuration):
        """Tables of config.json."""

    class Tensors(tensor_map.TensorMap):
        """Tables of tensor names."""

    def __init__(self) -> None:
        self.configuration = self.Configuration(self.model_type, self.classes)
        self.tensors = self.Tensors(self.model_type, self.classes)

    def variants(self) -> tuple[KeyMap, ...]:
        """Return the maps of the type's classes in another family, such as a causal encoder."""
        return ()

    def is_written_by(self, config_json: Keys) -> bool:
        """Return whether a class of this variant wrote config.json."""
        return True

    def problems(self, config: ModelConfig, token_ids: Mapping[str, object]) -> Problems:
        """Return the reasons why the type cannot hold a model; only the body is compared."""
        keys = self.configuration
        if config.family != keys.fixed["family"]:
            return Problems([f"model.family: expected {keys.fixed['family']}, got {config.family}"])
        # reasons: the activation, then each key that a round trip through config.json changes
        reasons = []
        ids = {key: value for key, value in token_ids.items() if value is not None}

        if keys.activation is not None and keys.activation_name(config) is None:
            names = list(dict.fromkeys(keys.activations.values()))
            reasons.append(
                f"model.activation: expected {' or '.join(names)}, got {config.activation}"
            )
            config = replace(config, activation=names[0])  # type: ignore[arg-type]

        try:
            read_back = keys.read(keys.write(config, 8, ids), {})
        except ConfigurationError as error:
            return Problems([*reasons, str(error)], is_complete=False)

        pairs = differences(config, read_back).items()
        return Problems(
            [
                *reasons,
                *(f"model.{key}: expected {other}, got {ours}" for key, (ours, other) in pairs),
            ]
        )

    def match_score(self, config: ModelConfig, token_ids: Mapping[str, object]) -> tuple[bool, ...]:
        """Return how well the type suits a model whose body it can hold; larger is better."""
        has_class = set(config.heads) in [set(headed.heads) for headed in self.classes.with_heads]
        if (class_head := self.task_head(config, token_ids)) is not None:
            [head] = config.heads.values()
            has_class = has_class or not head.differences(class_head, config.architecture)
        shares_layers = config.layer_groups < config.layers
        fits_sharing = self.classes.shares_layers == shares_layers
        return self.has_transforms_of(config), has_class, fits_sharing

    def has_transforms_of(self, config: ModelConfig) -> bool:
        """Return whether the type's heads transform the states where the model's heads do."""
        transform = self.classes.head_options.get("transform", True)
        heads = config.heads.values()
        matches = all(
            head.transform == transform and head.projection in self.classes.projections
            for head in heads
        )
        return self.classes.task(config) is not None or matches

    def task_head(self, config: ModelConfig, token_ids: Mapping[str, object]) -> HeadOptions | None:
        """Return the only head of a model as the type's class computes it, or None."""
        if (task := self.classes.task(config)) is None:
            return None
        ids = {key: value for key, value in token_ids.items() if value is not None}
        class_name = self.classes.task_class(endings()[task[0]]).name
        config_json = {**self.configuration.write(config, 8, ids), "architectures": [class_name]}
        return self.configuration.read(config_json, {}).heads.get(task[0])
