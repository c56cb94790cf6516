"""The interface of adapters: few parameters that are trained while the model stays frozen."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import ClassVar, Final, TypeAlias

import torch
from torch import Tensor, nn

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.model.families import Family
from clozeline.model.parameters.initial_values import Draw
from clozeline.model.parameters.sharding import WHOLE, Placement

_UNMERGED: Final = (
    "model.adapter: it adds a computation to the model, which cannot be merged into its weights: export the adapter "
    "with clozeline export-adapter, or train lora or bitfit"
)
Undo: TypeAlias = Callable[[], None]
"""Undo one change of the model."""


@config_class
class AdapterOptions:
    """Configuration of an adapter."""

    def position_count(self, architecture: str) -> int:
        """Return the number of positions that the adapter takes from the position table."""
        return 0


class Adapter(nn.Module):
    """Additional parameters of a model, and how they change its computation while the adapter is active.

    The model keeps its own names and values: several adapters may belong to one model, and one at a time is active.
    Layers that share weights share what an adapter adds to them. A family that cannot have it is a ConfigurationError.
    """

    Options: ClassVar[type[AdapterOptions]]
    inner: ClassVar[str] = ""
    """End of the path of the module that is changed, after the path of its part."""

    def __init__(self, options: AdapterOptions, family: Family) -> None:
        super().__init__()
        self.options = options
        self.parts: Mapping[str, nn.Module] = {}
        self._undo: list[Undo] = []

    def register_parts(self, parts: Mapping[str, nn.Module]) -> None:
        """Register modules under the paths of what they adapt, which become part of their parameters' names."""
        for path, part in parts.items():
            *folders, last = path.split(".")
            parent: nn.Module = self
            for folder in folders:
                if folder not in dict(parent.named_children()):
                    parent.add_module(folder, nn.Module())
                parent = parent.get_submodule(folder)
            parent.add_module(last, part)
        self.parts = dict(parts)  # a plain dict: the modules are registered above

    def apply_changes(self, family: Family) -> Iterator[Undo]:
        """Change the model; yield an undo for each change. By default `change` replaces what the modules return."""
        for path, part in self.parts.items():
            module = family.get_submodule(f"{path}{self.inner}")
            yield module.register_forward_hook(partial(self._replace_output, part)).remove

    def change(self, part: object, x: Tensor, output: Tensor) -> Tensor:
        """Return the changed output of a module, from the adapter's part, the module's first input and its output."""
        raise NotImplementedError

    def _replace_output(self, part: nn.Module, _: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        return self.change(part, inputs[0], output)

    def attach(self, family: Family) -> None:
        """Activate the adapter."""
        self._undo = list(self.apply_changes(family))

    def detach(self) -> None:
        """Deactivate the adapter."""
        while self._undo:
            self._undo.pop()()

    def initialize_from(self, family: Family, vocab_size: int, seed: int, placement: Placement = WHOLE) -> None:
        """Initialize from the weights of the model, if the adapter starts from some of them."""

    def learning_rate_factors(self) -> dict[nn.Parameter, float]:
        """Return parameters whose learning rate is not that of the optimizer, and its factor."""
        return {}

    def merge(self, family: Family) -> dict[str, Tensor]:
        """Return the parameters of the family, by name, with which it computes the same without the adapter."""
        raise ConfigurationError(_UNMERGED)

    @classmethod
    def check_merge(cls) -> None:
        """Raise ConfigurationError if no weights of a model can hold what the adapter computes."""
        if cls.merge is Adapter.merge:
            raise ConfigurationError(_UNMERGED)


class Rows(nn.Module):
    """Learned rows: keys and values of a prefix, vectors of a prompt."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.empty(length, width))

    def initial_weights(self, usual: Draw) -> dict[str, Draw]:
        return {"rows": usual}

    def forward(self) -> Tensor:
        """Return [length, width]; a copy, because ZeRO stage 3 frees the parameter after the call."""
        return self.rows.clone()
