"""Freeze parameters by name patterns."""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from torch import nn

from clozeline.errors import ConfigurationError
from clozeline.model.parameters.sharding import full_shape
from clozeline.patterns import use_pattern

_SHORTHANDS: Final = {
    "body": r"family\..*",
    "embeddings": r"family\.(.*\.)?(tokens|embeddings|position)\..*",
}
"""Names for parts of every model: everything but the heads; and the token, position and segment
tables with their norm."""


def freeze(model: nn.Module, patterns: Sequence[str]) -> list[str]:
    """Freeze the parameters that a pattern matches; return the lines to print.

    Frozen parameters are not given to the optimizer, whose weight decay would change them. A table
    that a head shares belongs to the body. Patterns are `body`, `embeddings`, or regular
    expressions: `family.stack.layers.[01].*`.
    """
    named = dict(model.named_parameters())
    for pattern in patterns:
        for name in match_parameters("freeze", pattern, named):
            named[name].requires_grad_(False)
    if patterns and not any(parameter.requires_grad for parameter in named.values()):
        raise ConfigurationError(f"freeze: {', '.join(patterns)} leaves nothing to train")
    count = sum(not parameter.requires_grad for parameter in named.values())
    sizes = frozen_count(model), sum(full_shape(parameter).numel() for parameter in named.values())
    return [f"frozen     {count} parameters, {sizes[0]:,} of {sizes[1]:,} numbers"] if count else []


def match_parameters(key: str, pattern: str, names: Iterable[str]) -> list[str]:
    """Return the parameter names that a pattern matches in full."""
    names = list(names)
    with use_pattern(key, _SHORTHANDS.get(pattern, pattern)) as expression:
        matching = [name for name in names if expression.fullmatch(name)]
    if matching:
        return matching
    near = ", ".join(difflib.get_close_matches(pattern, names, n=3, cutoff=0.0))
    expected = (
        f"expected {', '.join(_SHORTHANDS)}, or a regular expression for full names such as {near}"
    )
    raise ConfigurationError(f"{key}: {pattern!r} matches no parameter: {expected}")


def frozen_count(model: nn.Module) -> int:
    """Return the number of elements in frozen parameters."""
    return sum(
        full_shape(parameter).numel()
        for parameter in model.parameters()
        if not parameter.requires_grad
    )


def frozen_modules(model: nn.Module) -> Iterator[nn.Module]:
    """Yield the modules whose parameters are all frozen, which run without dropout."""
    for module in model.modules():
        parameters = list(module.parameters())
        if parameters and not any(parameter.requires_grad for parameter in parameters):
            yield module
