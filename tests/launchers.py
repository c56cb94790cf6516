"""Stand-ins for commands: programs of a few lines, put first on PATH."""

from __future__ import annotations

import sys
from pathlib import Path


def stand_in(folder: Path, name: str, program: str) -> None:
    """Write a Python program as a command of this name."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{program}", encoding="utf-8")
    path.chmod(0o755)


def noted(log: Path, code: int = 0) -> str:
    """Return a program that adds its arguments to a file, a line a call, and ends with a code."""
    return f"import sys\nopen({str(log)!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')\nsys.exit({code})\n"
