"""Drivers and workers of `executor.name=external`, as processes."""

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.distributed import ROOT

COMMANDS = Path(sys.executable).parent
VARIABLES = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{COMMANDS}:{os.environ['PATH']}"}
PATIENCE_S = 120


def start(*words, folder=ROOT):
    """Start a program, whose messages can be read from its output."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        words, cwd=folder, env=VARIABLES, stdout=pipe, stderr=subprocess.STDOUT, text=True
    )


def start_worker(output, *words, folder=ROOT):
    return start(str(COMMANDS / "clozeline"), "work", str(output), *words, folder=folder)


def end(process):
    """Wait for the end of a process; return its exit code and what it said."""
    said, _ = process.communicate(timeout=PATIENCE_S)
    return process.returncode, " ".join(said.split())


def until(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
