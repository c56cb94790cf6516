"""A note of what a folder of runs is for, so that no other command mixes its runs with them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.errors import ConfigurationError
from pipeline.files import publish, read_json

__all__ = ["remember"]


def remember(path: Path, ours: Mapping[str, Any]) -> None:
    """Write down what a folder is for, or compare it with what is written.

    Args:
        path: the note, in the folder, which is made if need be.
        ours: plain data.

    Raises:
        ConfigurationError: it is for something else, or the note cannot be read.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with publish(path) as temporary:
            temporary.write_text(json.dumps(ours, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        return
    held = read_json(path)
    if held is None:
        raise ConfigurationError(f"{path}: is damaged; choose another output")
    if changed := sorted(key for key in {*held, *ours} if held.get(key) != ours.get(key)):
        key = changed[0]
        raise ConfigurationError(
            f"output: {path.parent} holds runs of other words: {key} was {held.get(key)!r}, is {ours.get(key)!r}; "
            "choose another output"
        )
