"""Expand `~` in configured paths, which shells do not expand in `output=~/data`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import AfterValidator


def _expand(value: Any) -> Any:
    """Return a path, or the paths in a list or mapping, with `~` or `~user` replaced by the home folder."""
    if isinstance(value, list):
        return [_expand(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _expand(item) for key, item in value.items()}
    if value is None or not str(value).startswith("~"):
        return value
    try:
        return type(value)(Path(value).expanduser())
    except RuntimeError as error:
        raise ValueError(f"{value}: there is no such home folder; write ./{value} for a file of this name") from error


HOME_EXPANDED = AfterValidator(_expand)
"""Annotation of a key that holds paths."""
