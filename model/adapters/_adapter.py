"""The interface of adapters: a few additional parameters train, the model stays frozen."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Annotated, ClassVar, Final, TypeAlias

import torch
from pydantic import AfterValidator
from torch import Tensor, nn

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.model.families import ModelFamily
from clozeline.model.parameters.initial_values import Draw
from clozeline.model.parameters.sharding import UNSHARDED, Placement
from clozeline.patterns import compile_pattern, use_pattern

_UNMERGED: Final = (
    "model.adapter: it adds a computation to the model, which cannot be merged into its weights: "
    "export the adapter alone, or train lora or bitfit"
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
    """Additional parameters, and how they change a model while the adapter is active.

    Parameters of the model keep their names and values. A model may have several adapters, of which
    one is active at a time. Layers that share weights also share what an adapter adds to them. A
    family that cannot have the adapter raises ConfigurationError.
    """

    Options: ClassVar[type[AdapterOptions]]
    inner: ClassVar[str] = ""
    """End of the path of the module that is changed, after the path of the adapter's part."""

    def __init__(self, options: AdapterOptions, family: ModelFamily) -> None:
        super().__init__()
        self.options = options
        self.parts: Mapping[str, nn.Module] = {}
        self._undo: list[Undo] = []

    def register_parts(self, parts: Mapping[str, nn.Module]) -> None:
        """Register modules under the paths of the modules that they adapt."""
        for path, part in parts.items():
            *folders, last = path.split(".")
            parent: nn.Module = self
            for folder in folders:
                if folder not in dict(parent.named_children()):
                    parent.add_module(folder, nn.Module())
                parent = parent.get_submodule(folder)
            parent.add_module(last, part)
        self.parts = dict(parts)  # not an nn.ModuleDict: the modules are registered above

    def apply_changes(self, family: ModelFamily) -> Iterator[Undo]:
        """Change the model; yield a function that undoes each change.

        By default, `change` replaces the outputs of the adapted modules.
        """
        for path, part in self.parts.items():
            module = family.get_submodule(f"{path}{self.inner}")
            yield module.register_forward_hook(partial(self._replace_output, part)).remove

    def change(self, part: object, x: Tensor, output: Tensor) -> Tensor:
        """Return the new output of a module, from the adapter's part and the first input."""
        raise NotImplementedError

    def _replace_output(
        self, part: nn.Module, _: nn.Module, inputs: tuple[Tensor, ...], output: Tensor
    ) -> Tensor:
        return self.change(part, inputs[0], output)

    def attach(self, family: ModelFamily) -> None:
        """Activate the adapter."""
        self._undo = list(self.apply_changes(family))

    def detach(self) -> None:
        """Deactivate the adapter."""
        while self._undo:
            self._undo.pop()()

    def initialize_from(
        self, family: ModelFamily, vocab_size: int, seed: int, placement: Placement = UNSHARDED
    ) -> None:
        """Initialize from the weights of the model, if the adapter starts from some of them."""

    def learning_rate_factors(self) -> dict[nn.Parameter, float]:
        """Return the parameters with a learning rate other than the optimizer's, and its factor."""
        return {}

    def merge(self, family: ModelFamily) -> dict[str, Tensor]:
        """Return the parameters with which the family computes the same without the adapter."""
        raise ConfigurationError(_UNMERGED)

    @classmethod
    def check_merge(cls) -> None:
        """Raise ConfigurationError if what the adapter computes cannot be written into weights."""
        if cls.merge is Adapter.merge:
            raise ConfigurationError(_UNMERGED)


class LearnedVectors(nn.Module):
    """Learned vectors: keys and values of a prefix, or token vectors of a prompt."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.empty(length, width))

    def initial_weights(self, usual: Draw) -> dict[str, Draw]:
        return {"rows": usual}

    def forward(self) -> Tensor:
        """Return a copy, [length, width]: ZeRO stage 3 frees the parameter after the call."""
        return self.rows.clone()


def _check_pattern(pattern: str) -> str:
    return compile_pattern(pattern).pattern


def _check_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(patterns)) < len(patterns):
        raise ValueError(f"expected different patterns, got {', '.join(patterns)}")
    return patterns


Pattern = Annotated[str, AfterValidator(_check_pattern)]
Patterns = Annotated[tuple[Pattern, ...], AfterValidator(_check_patterns)]
"""Regular expressions of complete path components: `query` is every path ending in `.query`."""


def matches(pattern: str, path: str) -> bool:
    """Return whether the last components of a path match a pattern."""
    parts = path.split(".")
    with use_pattern("model.adapter", pattern) as expression:
        return any(expression.fullmatch(".".join(parts[start:])) for start in range(len(parts)))


def linear_maps(family: ModelFamily, key: str, patterns: Iterable[str]) -> dict[str, nn.Linear]:
    """Return the linear maps whose paths end with one of the patterns, by path.

    A pattern is `query`, or `layers.[01].attention.body.(query|value)`; `key` names the option with
    the patterns in messages. Maps have the order of the family.

    Raises:
        ConfigurationError: a pattern matches no module, one that is not a linear map, or one whose
            weight is tied.
    """
    modules = dict(family.named_modules())
    # a weight that two modules own is tied
    owners = Counter(
        id(parameter)
        for module in modules.values()
        for parameter in module.parameters(recurse=False)
    )

    chosen: set[str] = set()

    for pattern in patterns:
        matching = [path for path in modules if matches(pattern, path)]
        where = f"model.adapter.{key}: '{pattern}'"

        if not matching:
            raise ConfigurationError(
                f"{where} matches no module of the family; expected {_linear_names(modules)}"
            )

        if other := next(
            (path for path in matching if not isinstance(modules[path], nn.Linear)), None
        ):
            expected = (
                f"expected {_linear_names(modules)}; tables, and projections tied to them, cannot "
                "have an adapter"
            )
            raise ConfigurationError(
                f"{where} matches {other}, a {type(modules[other]).__name__}; {expected}"
            )

        if tied := next((path for path in matching if owners[id(modules[path].weight)] > 1), None):
            raise ConfigurationError(
                f"{where} matches {tied}, whose weight is tied to another module: exclude it"
            )

        chosen.update(matching)

    return {
        path: module
        for path, module in modules.items()
        if path in chosen and isinstance(module, nn.Linear)
    }


def _linear_names(modules: dict[str, nn.Module]) -> str:
    names = {
        path.rpartition(".")[2] for path, module in modules.items() if isinstance(module, nn.Linear)
    }
    return (
        f"linear maps: {', '.join(sorted(names))}"
        if names
        else "linear maps, but this family has none"
    )
