"""The package that `pip install` adds: it holds the folders `pipeline`, `model`, `train`, `tools` and `configs`.

`import clozeline` makes these four packages importable, ours before any others of the same names. In the repository
the folders are beside this one; a wheel puts them inside (docs/decisions/0007).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

__all__ = ["HOME", "PACKAGES"]

_HERE: Final = Path(__file__).resolve().parent
HOME: Final = _HERE if (_HERE / "pipeline").is_dir() else _HERE.parent
"""Folder that holds the packages and `configs/`."""
PACKAGES: Final = ("model", "pipeline", "tools", "train")


def _make_importable() -> None:
    for name in PACKAGES:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is not None and not Path(file).resolve().is_relative_to(HOME):
            raise ImportError(f"{file} hides {HOME / name}: import clozeline before it, or rename it")
    sys.path[:] = [str(HOME), *(folder for folder in sys.path if folder != str(HOME))]


_make_importable()
