"""A note of what a folder of runs is for, so that no other command mixes its runs with them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.errors import ConfigurationError
from pipeline.files import publish, read_json

__all__ = ["refuse_other_words", "remember"]


def remember(path: Path, ours: Mapping[str, Any]) -> None:
    """Write down what a folder is for, in place of what a refused command has left.

    Args:
        path: the note, in the folder, which is made if need be.
        ours: plain data.

    Raises:
        ConfigurationError: as `refuse_other_words`.
    """
    refuse_other_words(path, ours)
    path.parent.mkdir(parents=True, exist_ok=True)
    with publish(path) as temporary:
        temporary.write_text(json.dumps(ours, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def refuse_other_words(path: Path, ours: Mapping[str, Any]) -> None:
    """Check that a folder holds no runs of another command; without a run its note may say anything.

    Args:
        path: the note, in the folder.
        ours: plain data.

    Raises:
        ConfigurationError: the folder holds a run of something else, or the note beside a run cannot be read.
    """
    if not path.exists() or not any(path.parent.rglob("config.yaml")):
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
