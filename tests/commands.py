"""Modules of the commands, by the names that people type."""

import importlib

from clozeline.__main__ import commands


def command_module(name):
    """Return the module of a command: `command_module("shard_stats")`."""
    known = {key: command for group in commands().values() for key, command in group.items()}
    return importlib.import_module(known[name.replace("_", "-")].module)
