"""Published model sizes: a file of configs/models has a family's keys, and those of each size."""

import difflib
import functools
from typing import Any, Final

from clozeline import HOME
from clozeline.configuration.config import read_mapping
from clozeline.errors import ConfigurationError

_FOLDER: Final = HOME / "configs" / "models"


@functools.cache
def all_sizes() -> dict[str, dict[str, object]]:
    """Return the keys of each size in configs/models by its name, such as `bert_base`."""
    sizes: dict[str, dict[str, object]] = {}
    for path in sorted(_FOLDER.glob("*.yaml")):
        family = read_mapping(path)
        sizes |= {name: {**family, **keys} for name, keys in family.pop("sizes").items()}
    return sizes


def read_size(name: str) -> dict[str, Any]:
    """Return the keys of `model` for a size.

    Raises:
        ConfigurationError: configs/models has no size of this name.
    """
    sizes = all_sizes()
    if name not in sizes:
        close = difflib.get_close_matches(name, sizes, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(sizes)}"
        raise ConfigurationError(f"model: configs/models has no size '{name}'; {hint}")
    return dict(sizes[name])
