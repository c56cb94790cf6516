"""Hooks, one per file: each observes or changes a training; chosen by the key `hooks`.

Engine, loop and checkpoints know hooks only as a list. `regularizer` and keys of extensions add
hooks, too: see `hooks_of_run` in train/engine.py.
"""

from clozeline.train.hooks._hook import Hook, HookContext, StepInfo, UnwrappedModel

__all__ = ["Hook", "HookContext", "StepInfo", "UnwrappedModel"]
