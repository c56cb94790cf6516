"""The offline data pipeline: clean, deduplicate, tokenize, group, corrupt. It never imports torch."""

import importlib
import sys
from pathlib import Path
from typing import Final

# Modules of the stages that share a room; any other stage has the room of its name.
_TOKENIZE: Final = {"train_tokenizer": "tokenize.train", "tokenizer": "tokenize.take", "encode": "tokenize.encode"}


def stage_names() -> list[str]:
    """Return the names of all stages: the rooms of `pipeline/` that hold `stage.py`, and those of `tokenize/`."""
    rooms = {path.parent.name for path in Path(__file__).parent.glob("*/stage.py")}
    return sorted(rooms | _TOKENIZE.keys())


def stage_module(stage: str) -> str:
    """Return the name of the module that holds a stage: `clozeline.pipeline.dedup.stage`."""
    return f"clozeline.pipeline.{_TOKENIZE.get(stage, stage)}.stage"


if __name__ == "pipeline":  # `python -m pipeline`: the same module under its only name
    sys.modules[__name__] = importlib.import_module("clozeline.pipeline")
