"""Clozeline: an offline pipeline that makes training shards from text, and a DeepSpeed trainer that streams them.

Everything is imported from here: `from clozeline.pipeline.shards import ShardSet`. The folders
`pipeline`, `model`, `train`, `tools` and `configs` are links to those of the repository, and real
folders in a wheel (docs/decisions/0007).
"""

from pathlib import Path
from typing import Final

HOME: Final = (Path(__file__).parent / "train").resolve().parent
"""Folder that holds `pipeline`, `model`, `train`, `tools` and `configs`: the repository, or the
package of a wheel."""
