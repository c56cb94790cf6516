"""The installed command `clozeline`, started as a user starts it in a folder of their own: every command."""

import shlex
from pathlib import Path

import pytest

from tests.clozeline.bench import LINES
from tests.clozeline.installed import installed
from tests.clozeline.test_commands_on_faults import tree

ROOT = Path(__file__).parents[2]


USED = {**LINES, "where": "where train/main.py", "help": "help where"}


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
