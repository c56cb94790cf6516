"""Refuse files of this machine in the suite: a test that reads one passes here alone.

The clone, the folder for temporary files, Python with its packages, the folder of real data for the
tests that are marked, and the system may be read.
"""

import os
import site
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SYSTEM = ("/dev", "/etc", "/proc", "/run", "/sys", "/usr", "/bin", "/lib", "/lib64", "/var/lib")
_named = [
    *(ROOT, tempfile.gettempdir(), os.environ.get("CLOZELINE_DATA")),
    *(sys.prefix, sys.base_prefix, *site.getsitepackages(), *SYSTEM),
]
ALLOWED = tuple({f"{form(path)}/" for path in _named if path for form in (str, os.path.realpath)})


def _refuse(event, arguments):
    if event != "open" or isinstance(arguments[0], int):
        return
    path = Path(os.fsdecode(arguments[0])).absolute()
    if f"{path}/".startswith(ALLOWED) or not path.exists():
        return
    if not f"{path.resolve()}/".startswith(ALLOWED):
        # no OSError, which the code under test handles
        raise AssertionError(f"{path} is a file of this machine: make it in the test")


def refuse_other_files():
    """From now on, opening a file elsewhere fails in this process, and in those forked from it."""
    sys.addaudithook(_refuse)
