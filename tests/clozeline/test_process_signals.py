"""Processes that end at signals and with their parent."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from clozeline.process import WARNINGS


@pytest.mark.parametrize("number", WARNINGS, ids=lambda number: number.name)
def test_a_warning_without_a_handler_ends_the_process(number: signal.Signals) -> None:
    code = f"import resource, signal; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); signal.raise_signal({number})"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -number


IGNORED = """
import os, signal, sys
from clozeline.command import run_command, stopping_at_signals

def work():
    with stopping_at_signals():
        for number in (signal.SIGHUP, signal.SIGINT):
            os.kill(os.getpid(), number)
        print("goes on", flush=True)
        os.kill(os.getpid(), signal.SIGTERM)

sys.exit(run_command(work))
"""


def test_what_is_ignored_at_the_start_stays_ignored_and_sigterm_stops() -> None:
    """As under `nohup`, and for a command with `&` in a script."""
    shell = ["sh", "-c", "trap '' HUP INT; exec \"$@\"", "sh", sys.executable, "-c", IGNORED]
    done = subprocess.run(shell, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (75, "goes on\n"), done.stderr


WAITING = """
import sys, threading
from clozeline.process import die_with
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
