"""A process that needs another one ends when that one is gone."""

from __future__ import annotations

import subprocess
import sys

WAITING = """
import sys, threading
from clozeline.pipeline.execution.parent_process import die_with
die_with(int(sys.argv[1]))
print("armed", flush=True)
threading.Event().wait()
"""


def test_it_ends_with_the_other_process_and_not_before() -> None:
    needed = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    command = [sys.executable, "-c", WAITING, str(needed.pid)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "armed\n"
        assert waiting.poll() is None
        needed.communicate(b"\n")
        assert waiting.wait(timeout=60) == 1
