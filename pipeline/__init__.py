"""The offline data pipeline: clean, deduplicate, tokenize, group and corrupt text.

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
"""folder of each stage in `pipeline/`, in the order in which the stages run"""


def all_stages() -> list[str]:
    """Return the names of all stages, in the order in which they run."""
    return [*_FOLDERS]


def stage_module(stage: str, file: str = "stage") -> str:
    """Return the name of a stage's module, such as `clozeline.pipeline.dedup.stage`."""
    return f"clozeline.pipeline.{_FOLDERS[stage]}.{file}"


if __name__ == "pipeline":  # `python -m pipeline` must not import the module a second time
    sys.modules[__name__] = importlib.import_module("clozeline.pipeline")
