"""The installed command `clozeline`, started as a user starts it in a folder of their own: every command."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from clozeline.__main__ import commands
from tests.clozeline.bench import LINES
from tests.clozeline.installed import SCRIPT, installed
from tests.clozeline.test_commands_on_faults import tree

ROOT = Path(__file__).parents[2]
NAMES = sorted(name for group in commands().values() for name in group)
HELP_OF_ALL = """
import gc, importlib, json, os, runpy, sys, traceback
from clozeline.__main__ import commands
for group in commands().values():
    for command in group.values():
        importlib.import_module(command.module)  # once, so that a start takes no seconds

def start(script, name):
    sys.argv = [script, name, "--help"]
    sys.path[0] = os.path.dirname(script)
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        return end.code
    except Exception:
        traceback.print_exc()
    return 1

script, folder, *names = sys.argv[1:]
gc.freeze()
codes = {}
for name in names:
    child = os.fork()
    if child == 0:
        for number in (1, 2):
            os.dup2(os.open(f"{folder}/{name}.{number}", os.O_CREAT | os.O_WRONLY), number)
        code = start(script, name)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)  # an ordinary end takes seconds, to release the libraries
    codes[name] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(json.dumps(codes))
"""


def test_help_of_every_command(tmp_path):
    """Each start is a copy of one process that has loaded the libraries: a tenth of the time of separate processes."""
    answers, empty = tmp_path / "answers", tmp_path / "empty"
    answers.mkdir()
    empty.mkdir()
    command = [sys.executable, "-c", HELP_OF_ALL, SCRIPT, answers, *NAMES, "where"]
    done = subprocess.run(command, cwd=empty, capture_output=True, text=True, check=True)
    codes = json.loads(done.stdout.splitlines()[-1])
    failed = {name: (answers / f"{name}.2").read_text() for name, code in codes.items() if code != 0}
    assert not failed, failed
    for name in codes:
        shown = (answers / f"{name}.1").read_text()
        assert shown.startswith(f"usage: clozeline {name} "), shown
    assert not list(empty.iterdir())


@pytest.fixture
def empty(tmp_path):
    """The user's folder."""
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


USED = {**LINES, "where": "where train/main.py", "help": "help where"}


@pytest.mark.slow
def test_every_command_that_is_listed_is_used(empty):
    """So that the lines are complete: a command of the help without one fails."""
    listed = set(re.findall(r"^  ([a-z][a-z-]*) ", installed("--help", cwd=empty).stdout, flags=re.MULTILINE))
    assert listed == {*USED}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(USED))
def test_a_command_in_use(whole, tmp_path, name):
    """From a folder of the user's; it ends well, and says what it did."""
    bench = whole.copy(tmp_path / "copy")
    if name in LINES:
        bench.undo(LINES[name])
    before = tree(bench.folder)
    words = shlex.split(USED[name])
    done = installed(*words, cwd=bench.folder)
    assert done.returncode == 0, f"{words}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    assert "Traceback" not in done.stdout + done.stderr
    assert done.stdout or tree(bench.folder) != before
