from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.file_times import processor_seconds

ROOT = Path(__file__).parents[1]
BURN = "import time\nwhile time.process_time() < {}: pass\n"


def test_seconds_of_children_count_while_they_run_and_after() -> None:
    before = processor_seconds()
    code = f"{BURN.format(0.3)}print(flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert processor_seconds() - before >= 0.25
    assert processor_seconds() - before >= 0.25


@pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.slow)])
def test_files_are_listed_by_their_seconds(tmp_path: Path, workers: str) -> None:
    for name, seconds in (("test_long", 0.6), ("test_short", 0.1)):
        body = f"    {BURN.format(seconds)}".replace("\n", "\n    ").rstrip()
        (tmp_path / f"{name}.py").write_text(f"def test_it():\n{body}\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.file_times", "-n", workers, "--rootdir", tmp_path]
    done = subprocess.run([*command, tmp_path], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    listed = done.stdout[done.stdout.index("CPU seconds of 2 files") :]
    assert 0 < listed.index("test_long.py") < listed.index("test_short.py")
