"""Adapters: few parameters that are trained beside a frozen model. One file each, chosen by `model.adapter`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, TypeAlias

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from clozeline.errors import ConfigurationError
from clozeline.model.configuration.key_types import STRICT
from clozeline.model.families import Family
from clozeline.model.parameters.initial_values import Draw
from clozeline.model.parameters.sharding import WHOLE, Placement

Undo: TypeAlias = Callable[[], None]
"""Take one change of the model back."""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class AdapterOptions:
    """Keys of an adapter."""

    def position_count(self, architecture: str) -> int:
        """Return the places of the position table that a row has less, because the adapter takes them."""
        return 0


class Adapter(nn.Module, ABC):
    """Parameters beside a model, and the places at which they enter its computation while the adapter is in use.

    Its parameters have names of their own, and the model keeps its names and values: several adapters may belong to one
    model, of which one at a time is in use. Layers that share weights share what an adapter adds to them.

    Args:
        options: keys of the adapter.
        family: the body that it adapts.

    Raises:
        ConfigurationError: the family has no place for it.
    """

    Options: ClassVar[type[AdapterOptions]]

    def __init__(self, options: AdapterOptions, family: Family) -> None:
        super().__init__()
        self.options = options
        self.parts: Mapping[str, nn.Module] = {}
        self._undo: list[Undo] = []

    def hold(self, parts: Mapping[str, nn.Module]) -> None:
        """Take modules by the paths of what they adapt: their parameters have these paths in their names."""
        for path, part in parts.items():
            *folders, last = path.split(".")
            at: nn.Module = self
            for folder in folders:
                if folder not in dict(at.named_children()):
                    at.add_module(folder, nn.Module())
                at = at.get_submodule(folder)
            at.add_module(last, part)
        self.parts = dict(parts)  # no attribute of torch's kind: the modules are registered above

    @abstractmethod
    def changes(self, family: Family) -> Iterator[Undo]:
        """Make the changes by which the adapter enters the model; yield for each what takes it back."""

    def enter(self, family: Family) -> None:
        """Put the adapter to use."""
        self._undo = list(self.changes(family))

    def leave(self) -> None:
        """Take the adapter out of use."""
        while self._undo:
            self._undo.pop()()

    def initialize_from(self, tokens: nn.Embedding, vocab_size: int, seed: int, placement: Placement = WHOLE) -> None:
        """Take initial values from the weights of the model, where the adapter begins with some."""

    def merge(self, family: Family) -> dict[str, Tensor]:
        """Return the parameters of the family, by name, with which it computes alone what it does with the adapter.

        Raises:
            ConfigurationError: the adapter adds a computation that no weight can hold.
        """
        raise ConfigurationError(
            f"adapter {type(self).__name__}: it adds a computation to the model, which cannot be merged into its "
            "weights: export the adapter beside the model"
        )


class Rows(nn.Module):
    """Learnt rows, as parameters: keys and values of a prefix, vectors of a prompt."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.empty(length, width))

    def initial_weights(self, usual: Draw) -> dict[str, Draw]:
        """Return the law of the rows, until an adapter's `initialize_from` sets others."""
        return {"rows": usual}

    def forward(self) -> Tensor:
        """Return [length, width]; a copy, for stage 3 takes the parameter back after the call."""
        return self.rows.clone()
