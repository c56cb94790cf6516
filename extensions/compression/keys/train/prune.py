"""Configure pruning: the method that removes weights, layers or tokens during a training."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from clozeline.configuration.added_keys import SingleValue
from clozeline.errors import ConfigurationError
from clozeline.extensions.compression.registries import PRUNING, PruningComponent
from clozeline.registry import Component
from clozeline.train.configuration.keys import TrainingKey
from clozeline.train.registries import HookComponent


@dataclass(frozen=True)
class PruneConfig(SingleValue, TrainingKey):
    """Removal of weights, layers or tokens during training: {name: magnitude, sparsity: 0.9}."""

    value: PruningComponent
    choices: ClassVar = {"prune": PRUNING}

    @property
    def chosen(self) -> Iterator[tuple[str, Component[Any]]]:
        yield "prune", self.value

    def hooks(self) -> Sequence[HookComponent]:
        return (self.value,)

    def check_rows(self, where: str, tensors: Collection[str]) -> None:
        if unread := sorted(self.value.type.unsupported.intersection(tensors)):
            raise ConfigurationError(
                f"{where}: prune: {self.value.name} reads rows of one text each, padded on the "
                f"right, and these rows have {unread[0]}: group them without packing, in another "
                "frame than xlnet"
            )
