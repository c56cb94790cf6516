"""The way out of a damaged file: the command of the stage that wrote it, where its run is still there, or a copy."""

from __future__ import annotations

import shlex
from pathlib import Path

__all__ = ["repair_of"]


def repair_of(path: Path | str) -> str:
    """Return what repairs a file that is missing or damaged, as the end of a message.

    A stage keeps its configuration and the records of its units in its folder: `--verify` compares every file with
    them, and makes again what differs.

    Args:
        path: the file, or its URL.
    """
    for folder in Path(path).absolute().parents:
        if (folder / "records").is_dir():
            command = f"python -m pipeline.{folder.name} --verify"
            if not (config := folder / "config.yaml").is_file():
                return f"run `{command}` with the same configuration, which makes it again, or copy it again"
            words = ("--config", str(config), f"output={folder.parent}")
            return f"run `{command} {shlex.join(words)}`, which makes it again, or copy it again"
        if (folder / "model.json").is_file():
            return "copy the folder again, or import the model again"
    return "copy it again, or make it again where it was made"
