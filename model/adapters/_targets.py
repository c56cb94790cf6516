"""Select the linear maps that an adapter changes by patterns of their paths."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator
from torch import nn

from clozeline.errors import ConfigurationError
from clozeline.model.families import Family


def _check_pattern(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"expected a regular expression, got '{pattern}': {error}") from error
    return pattern


def _check_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(patterns)) < len(patterns):
        raise ValueError(f"expected different patterns, got {', '.join(patterns)}")
    return patterns


Pattern = Annotated[str, AfterValidator(_check_pattern)]
Patterns = Annotated[tuple[Pattern, ...], AfterValidator(_check_patterns)]
"""Regular expressions of complete path components: `query` is every path that ends in `.query`."""


def matches(pattern: str, path: str) -> bool:
    """Return whether the last components of a path match a pattern."""
    return re.fullmatch(rf"(?:.*\.)?(?:{pattern})", path) is not None


def linear_maps(family: Family, key: str, patterns: Iterable[str]) -> dict[str, nn.Linear]:
    """Return the linear maps whose paths end with one of the patterns, by path, in the order of the family.

    A pattern is `query`, or `layers.[01].attention.body.(query|value)`; `key` names the patterns in messages.

    Raises:
        ConfigurationError: a pattern matches no module, one that is not a linear map, or one whose weight is tied.
    """
    modules = dict(family.named_modules())
    owners = Counter(id(parameter) for module in modules.values() for parameter in module.parameters(recurse=False))
    chosen: set[str] = set()
    for pattern in patterns:
        found = [path for path in modules if matches(pattern, path)]
        where = f"model.adapter.{key}: '{pattern}'"
        if not found:
            raise ConfigurationError(f"{where} matches no module of the family; expected {_linear_names(modules)}")
        if other := next((path for path in found if not isinstance(modules[path], nn.Linear)), None):
            expected = f"expected {_linear_names(modules)}: tables, and projections tied to them, have no adapter"
            raise ConfigurationError(f"{where} matches {other}, a {type(modules[other]).__name__}; {expected}")
        if tied := next((path for path in found if owners[id(modules[path].weight)] > 1), None):
            raise ConfigurationError(f"{where} matches {tied}, whose weight is tied to another module: exclude it")
        chosen.update(found)
    return {path: module for path, module in modules.items() if path in chosen and isinstance(module, nn.Linear)}


def _linear_names(modules: dict[str, nn.Module]) -> str:
    names = {path.rpartition(".")[2] for path, module in modules.items() if isinstance(module, nn.Linear)}
    return f"linear maps: {', '.join(sorted(names))}" if names else "linear maps, of which this family has none"
