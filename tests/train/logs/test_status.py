from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from clozeline.files import process_start
from clozeline.sealed_json import seal
from clozeline.train.configuration.logs import LogConfig
from clozeline.train.logs.journal import Journal, read_status
from tests.clozeline.test_files import set_clock

HERE = socket.gethostname()


def write(run: Path, **fields: Any) -> None:
    content = {"state": "running", "step": 4, "checkpoint": "step-00000002", **fields}
    (run / "status.json").write_text(json.dumps(seal(content)))


def test_a_process_of_this_host_is_looked_for(tmp_path: Path) -> None:
    """By its number and the time of its start, which tells it from a later process of the same number."""
    mine = process_start(os.getpid())
    write(tmp_path, pid=os.getpid(), host=HERE, start=mine, heartbeat=0.0)
    found = read_status(tmp_path)
    assert found is not None
    assert (found.ended, found.text) == (False, "running, step 4, step-00000002")
    write(tmp_path, pid=os.getpid(), host=HERE, start=mine - 1000, heartbeat=time.time())
    assert read_status(tmp_path).ended  # type: ignore[union-attr]
    ended = subprocess.Popen(["true"])
    ended.wait()
    write(tmp_path, pid=ended.pid, host=HERE, start=mine, heartbeat=time.time())
    found = read_status(tmp_path)
    assert found is not None
    assert found.text == (
        f"not running any more, process {ended.pid} on {HERE} ended without saying so, step 4, step-00000002"
    )


@pytest.mark.parametrize(
    ("silence", "watchdog_s", "ended"),
    [(1700, 1800.0, False), (1900, 1800.0, True), (3500, 0.0, False), (3700, 0.0, True), (3700, None, True)],
)
def test_a_process_of_another_host_is_judged_by_its_last_sign_of_life(
    tmp_path: Path, silence: float, watchdog_s: float | None, ended: bool
) -> None:
    write(tmp_path, pid=os.getpid(), host="elsewhere", start=0.0, heartbeat=1e9, watchdog_s=watchdog_s)
    assert read_status(tmp_path, now=1e9 + silence).ended is ended  # type: ignore[union-attr]


@pytest.mark.parametrize("state", ["done", "stopped", "failed"])
def test_a_process_that_said_how_it_ended(tmp_path: Path, state: str) -> None:
    write(tmp_path, state=state, pid=1, host=HERE, start=0.0, checkpoint=None, step=None)
    found = read_status(tmp_path)
    assert found is not None
    assert (found.ended, found.text) == (False, f"{state}, before step 1, no checkpoint")


@pytest.mark.parametrize("raw", [b"", b"[]", b"\xff\xfe", b"{}", b'{"state": 3}'])
def test_a_damaged_status_is_not_known(tmp_path: Path, raw: bytes) -> None:
    assert read_status(tmp_path) is None
    (tmp_path / "status.json").write_bytes(raw)
    found = read_status(tmp_path)
    assert found is not None
    assert (found.state, found.ended, found.step) == ("unknown", False, None)
    assert found.text == "not known, status.json is damaged; a start writes it again"


@pytest.mark.parametrize("field", ["pid", "host", "start"])
def test_a_running_status_that_lacks_its_process(tmp_path: Path, field: str) -> None:
    write(tmp_path, **{"pid": os.getpid(), "host": HERE, "start": process_start(os.getpid()), field: None})
    assert read_status(tmp_path).ended  # type: ignore[union-attr]


def test_what_a_journal_writes_is_read(tmp_path: Path) -> None:
    """From its begin on, with the checkpoint that exists."""
    journal = Journal(tmp_path, LogConfig(tensorboard=False), 0)
    journal.status("running", step=9)
    journal.fail(ValueError("refused"))
    assert not (tmp_path / "status.json").exists()
    journal.begin(3, "step-00000003")
    found = read_status(tmp_path)
    assert found is not None
    assert (found.ended, found.step, found.checkpoint) == (False, 3, "step-00000003")


def test_a_process_is_known_after_the_clock_was_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Journal(tmp_path, LogConfig(tensorboard=False), 0).begin(0)
    assert not read_status(tmp_path).ended  # type: ignore[union-attr]
    set_clock(tmp_path / "proc", 86400, monkeypatch)
    assert not read_status(tmp_path).ended  # type: ignore[union-attr]
    status = json.loads((tmp_path / "status.json").read_text())
    del status["checksum"]
    (tmp_path / "status.json").write_text(json.dumps(seal({**status, "start": status["start"] - 5})))
    assert read_status(tmp_path).ended, "a later process of the same number"  # type: ignore[union-attr]


def test_steps_replace_the_file_once_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is waiting comes with the next call that is due, or with a save at once."""
    journal = Journal(tmp_path, LogConfig(tensorboard=False), 0)
    clock = iter([100.0] * 50)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    journal.begin(0)
    steps = []
    for step, at in enumerate((100.5, 100.9, 101.0, 101.9, 102.0), 1):
        clock = iter([at] * 50)
        journal.progress(step=step)
        steps.append(read_status(tmp_path).step)  # type: ignore[union-attr]
    assert steps == [0, 0, 3, 3, 5]
    journal.progress(step=6)
    journal.status("running", checkpoint="step-00000006")
    found = read_status(tmp_path)
    assert found is not None
    assert (found.step, found.checkpoint) == (6, "step-00000006")
