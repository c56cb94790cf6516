"""The offline data pipeline: clean, deduplicate, tokenize, group, corrupt.

It never imports torch.
"""

import importlib
import sys
from collections.abc import Mapping
from typing import Final

_FOLDERS: Final[Mapping[str, str]] = {
    "clean": "clean",
    "dedup": "dedup",
    "decontaminate": "decontaminate",
    "train_tokenizer": "tokenize.train",
    "tokenizer": "tokenize.import_published",
    "encode": "tokenize.encode",
    "balance": "balance",
    "group": "group",
    "corrupt": "corrupt",
    "tasks": "tasks",
}
"""Folder of each stage in `pipeline/`, in the order they run."""


def all_stages() -> list[str]:
    """Return the names of all stages in the order they run."""
    return [*_FOLDERS]


def stage_module(stage: str, file: str = "stage") -> str:
    """Return the name of the module that holds a stage, `clozeline.pipeline.dedup.stage`, or its `config`."""
    return f"clozeline.pipeline.{_FOLDERS[stage]}.{file}"


if __name__ == "pipeline":  # `python -m pipeline`: the same module under its only name
    sys.modules[__name__] = importlib.import_module("clozeline.pipeline")
