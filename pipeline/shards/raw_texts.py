"""Explain how to make shards if a user gives text files instead of a shard set."""

from pathlib import Path
from typing import Final

# Files of runs, models and tokenizers.
_OURS: Final = frozenset({"config.yaml", "config.json", "plan.json", "vocabulary.json", "index.arrow"})


def explain_texts(path: Path) -> str | None:
    """Return a message about a path that is not a manifest; None if it may be a missing or damaged manifest.

    Args:
        path: the file that was to be read, `FOLDER/manifest.json` where a folder was given.
    """
    root = path.parent if path.name == "manifest.json" else path
    if root == path:
        what = "a file of texts or tables" if path.is_file() else None
    else:
        what = "a folder of texts or tables" if not path.exists() and _holds_texts(root) else None
    if what is None:
        return None
    return (
        f"{root}: expected a shard set, got {what}; make shards of it: `clozeline pipeline --config recipe:demo "
        f"input={root} output=shards`, then give shards/corrupt/masked_lm/train (`clozeline --help` lists the recipes)"
    )


def _holds_texts(folder: Path) -> bool:
    """Return whether a folder holds files, none of them of a shard set, and no folder of Clozeline."""
    if not folder.is_dir():
        return False
    names = [entry.name for entry in folder.iterdir() if entry.is_file() and not entry.name.startswith(".")]
    ours = any(folder.glob("*/manifest.json")) or any(folder.glob("*/*/manifest.json")) or any(folder.glob("*shard-*"))
    return bool(names) and not ours and not _OURS & set(names)
