"""Runs the pipeline and dies by SIGKILL at the publication of a named file: `before` its rename or `after` it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from pipeline.__main__ import main

when, name, *arguments = sys.argv[1:]
rename = Path.replace


def rename_or_die(self: Path, target: Path) -> Path:
    hit = str(target).endswith(name)
    if hit and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    result = rename(self, target)
    if hit and when == "after":
        os.kill(os.getpid(), signal.SIGKILL)
    return result


if __name__ == "__main__":
    Path.replace = rename_or_die  # type: ignore[method-assign]
    raise SystemExit(main(arguments))
