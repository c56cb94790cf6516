"""Contracts of registries: what every algorithm promises, for `clozeline check` and for our tests.

A module per registry has `prepare`, which builds an algorithm from `{name: ..., option: ...}` and
what it reads, and `CHECKS` of that. The first line of a check's docstring is the promise; it raises
`Failed` where the promise is broken.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

Entry: TypeAlias = Mapping[str, Any]
"""Name and options of an algorithm, as in a configuration."""


class Failed(AssertionError):
    """A promise that an algorithm breaks: what was expected, what it gave, what to do."""


def require(holds: object, message: str) -> None:
    """Raise `Failed` with this message unless the promise holds."""
    if not holds:
        raise Failed(message)
