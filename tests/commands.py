"""Modules of the commands, by the names that people type."""

from __future__ import annotations

import importlib
from types import ModuleType

from clozeline.__main__ import commands


def command_module(name: str) -> ModuleType:
    """Return the module of a command: `command_module("shard_stats")`."""
    known = {key: command for group in commands().values() for key, command in group.items()}
    return importlib.import_module(known[name.replace("_", "-")].module)
