"""Clozeline: an offline pipeline from text to shards, and a DeepSpeed trainer that streams them.

Import everything from here: `from clozeline.pipeline.shards import ShardSet`. The folders
`pipeline`, `model`, `train`, `tools` and `configs` are links to those of the repository, and real
folders in a wheel (docs/decisions/0007).
"""

from pathlib import Path
from typing import Final

HOME: Final = (Path(__file__).parent / "train").resolve().parent
"""Folder with `pipeline`, `model`, `train`, `tools` and `configs`: the repository, or the package
of a wheel."""
