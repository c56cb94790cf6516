"""What a command prints may be lost: its work and its exit code do not change, unless the print is its result."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.lost_output import WAYS, exit_code

WORK = """
import contextlib, logging, os, subprocess, sys, threading, warnings
from pathlib import Path
from rich.console import Console
from rich.progress import track
from clozeline.command import run_command

def work():
    out = Path(sys.argv[1]).open("w")  # takes the lowest free descriptor
    thread = threading.Thread(target=print, args=("in a thread",))
    for step in track(range(40), console=Console(stderr=True)):
        print("a line \\u2192", "x" * 1000, flush=step % 2 == 0)
        print("a line", file=sys.stderr)
        Console().print("a table")
        logging.getLogger("clozeline").warning("a warning")
        warnings.warn(f"number {step}")
        out.write(f"{step}\\n")
    for descriptor in (1, 2):  # a library in C
        with contextlib.suppress(OSError):
            os.write(descriptor, b"a library")
    thread.start()
    thread.join()
    subprocess.run([sys.executable, "-c", "import os; os.write(1, b'a child'); os.write(2, b'a child')"], check=False)
    out.close()
    return 3

if __name__ == "__main__":
    raise SystemExit(run_command(work))
"""


@pytest.mark.parametrize("way", WAYS)
def test_work_goes_on_and_keeps_its_exit_code(tmp_path: Path, way: str) -> None:
    """And its file holds what it wrote: no message arrives there by a descriptor that was free."""
    out = tmp_path / "out"
    assert exit_code(way, [sys.executable, "-c", WORK, str(out)]) == 3
    assert out.read_text() == "".join(f"{step}\n" for step in range(40))


def test_a_terminal_without_the_character_shows_its_code(tmp_path: Path) -> None:
    environment = {"PYTHONIOENCODING": "latin-1", "PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", WORK, str(tmp_path / "out")]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert done.returncode == 3, done.stderr
    assert b"a line \\u2192" in done.stdout


RESULT = """
import errno, sys
from clozeline.command import run_command

def work():
    if sys.argv[1] == "print":
        for _ in range(100_000): print("a row of the result")
    else:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe", "a store")
    return 0

raise SystemExit(run_command(work, prints=True))
"""


@pytest.mark.parametrize(("way", "code"), [("no reader", 141), ("full disk", 74), ("closed terminal", 74)])
def test_a_result_that_cannot_be_printed_is_no_success(way: str, code: int) -> None:
    assert exit_code(way, [sys.executable, "-c", RESULT, "print"]) == code


def test_a_pipe_of_the_work_that_breaks_is_an_error() -> None:
    """`BrokenPipeError` alone does not say that the reader of the output has gone."""
    done = subprocess.run([sys.executable, "-c", RESULT, "work"], capture_output=True, text=True, check=False)
    assert done.returncode == 74
    assert done.stderr.startswith("error: ")
