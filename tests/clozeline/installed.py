"""The installed command `clozeline`, started as in a shell."""

import os
import subprocess
import sysconfig
from pathlib import Path

SCRIPT = Path(sysconfig.get_path("scripts")) / "clozeline"
"""File that pip made of the entry point in pyproject.toml."""


def installed(*words, cwd):
    """Run `clozeline WORDS`, without what the tests put in the environment for imports."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return subprocess.run(
        [SCRIPT, *words],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
