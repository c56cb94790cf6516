"""Explain how to make shards if a user gives text files instead of a shard set."""

from pathlib import Path
from typing import Final

# Files of runs, models and tokenizers.
_OURS: Final = frozenset({"config.yaml", "config.json", "plan.json", "vocabulary.json", "index.arrow"})


def explain_texts(path: Path) -> str | None:
    """Return a message about a path that is not a manifest; None if it may be a missing or damaged manifest."""
    root, what = path.parent if path.name == "manifest.json" else path, None
    if root == path:
        what = "a file of texts or tables" if path.is_file() else None
    elif root.is_dir() and not path.exists():
        # files, none of them of a shard set, and no folder of Clozeline
        names = {entry.name for entry in root.iterdir() if entry.is_file() and not entry.name.startswith(".")}
        ours = any(any(root.glob(pattern)) for pattern in ("*/manifest.json", "*/*/manifest.json", "*shard-*"))
        what = "a folder of texts or tables" if names and not ours and not _OURS & names else None
    if what is None:
        return None
    return (
        f"{root}: expected a shard set, got {what}; make shards of it: `clozeline pipeline --config recipe:demo "
        f"input={root} output=shards`, then give shards/corrupt/masked_lm/train (`clozeline --help` lists the recipes)"
    )
