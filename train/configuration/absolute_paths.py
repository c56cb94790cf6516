"""Resolve the relative paths of a configuration, for the copy that a run stores."""

from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from clozeline.pipeline.shards.store import as_url, local_path


def with_absolute_paths(value: Any) -> Any:
    """Return a configuration with its relative paths resolved against the current directory; URLs stay as they are."""
    if isinstance(value, Path):
        return value if as_url(value) is not None else local_path(value).absolute()
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(map(with_absolute_paths, value))
    if isinstance(value, dict):
        return {key: with_absolute_paths(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        before = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        changes = {name: new for name, old in before.items() if (new := with_absolute_paths(old)) != old}
        return replace(value, **changes) if changes else value
    return value
