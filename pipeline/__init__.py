"""The offline data pipeline: clean, deduplicate, tokenize, group, corrupt. It never imports torch."""

import importlib
import re
import sys
from pathlib import Path
from typing import Final

from clozeline.errors import ConfigurationError

# Modules of the stages that share a room; any other stage has the room of its name.
_TOKENIZE: Final = {"train_tokenizer": "tokenize.train", "tokenizer": "tokenize.take", "encode": "tokenize.encode"}


def stage_names() -> list[str]:
    """Return the names of all stages: the rooms of `pipeline/` that hold `stage.py`, and those of `tokenize/`."""
    rooms = {path.parent.name for path in Path(__file__).parent.glob("*/stage.py")}
    return sorted(rooms | _TOKENIZE.keys())


def stage_module(stage: str, file: str = "stage") -> str:
    """Return the name of the module that holds a stage, `clozeline.pipeline.dedup.stage`, or its `config`."""
    return f"clozeline.pipeline.{_TOKENIZE.get(stage, stage)}.{file}"


def all_stages() -> list[str]:
    """Return the names of all stages in the order they run, read from the text of their files: no stage is imported."""
    orders: dict[str, int] = {}
    for stage in stage_names():
        path = Path(__file__).parent.joinpath(*stage_module(stage).split(".")[2:]).with_suffix(".py")
        found = re.search(r"^    order: ClassVar\[int\] = (\d+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        if found is None:
            raise ConfigurationError(f"{path}: expected the position of the stage, such as `order: ClassVar[int] = 55`")
        orders[stage] = int(found[1])
    return sorted(orders, key=orders.__getitem__)


if __name__ == "pipeline":  # `python -m pipeline`: the same module under its only name
    sys.modules[__name__] = importlib.import_module("clozeline.pipeline")
