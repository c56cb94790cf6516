"""One run at a time: on one machine, and on machines whose file system keeps no locks."""

import errno
import json
import os
import subprocess
import sys
import time

import pytest

from clozeline.errors import StorageError
from clozeline.files import process_start
from clozeline.pipeline.execution import output_lock
from clozeline.pipeline.execution.output_lock import hold_output

HERE = {"host": output_lock._HOST, "pid": 1, "start": process_start(1) + 9.0}
THERE = {"host": "elsewhere", "pid": 1, "start": 1.0}


class Clock:
    """A clock that only sleeping moves; `then` runs after each sleep."""

    def __init__(self, then=lambda now: None):
        self.now = 0.0
        self.then = then

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.then(self.now)


@pytest.fixture
def no_locks(monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", refuse)


def held_by(folder, facts):
    (folder / ".holder").write_text(json.dumps(facts))
    return folder / ".holder"


LOCKLESS = """
import errno, fcntl, platform
def flock(*_): raise OSError(errno.ENOSYS, "Function not implemented")
fcntl.flock, platform.node = flock, lambda: "elsewhere"
"""
HOLD = """
import sys
from pathlib import Path
from clozeline.pipeline.execution.output_lock import hold_output
with hold_output(Path(sys.argv[1]), print):
    print("held", flush=True)
    input()
"""


@pytest.mark.parametrize("elsewhere", [False, True], ids=["one host", "two hosts without locks"])
def test_a_second_process_waits_until_the_first_ends(tmp_path, elsewhere):
    other = subprocess.Popen(
        [sys.executable, "-c", LOCKLESS * elsewhere + HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    assert other.stdout.readline() == "held\n"
    assert (
        json.loads((tmp_path / ".holder").read_text())["host"].startswith("elsewhere") == elsewhere
    )

    waited = []
    with hold_output(tmp_path, lambda: (waited.append(1), other.communicate("\n"))[0]):
        assert waited == [1]
    with hold_output(tmp_path, lambda: waited.append(2)):
        assert json.loads((tmp_path / ".holder").read_text())["pid"] == os.getpid()

    assert waited == [1]
    assert not (tmp_path / ".holder").exists()


def test_a_holder_that_cannot_be_written_holds_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(output_lock.json, "dumps", full)
    with pytest.raises(StorageError, match="No space left"), hold_output(tmp_path, lambda: None):
        pass

    assert not (tmp_path / ".holder").exists()


def test_a_process_of_this_machine_that_was_killed_holds_nothing(tmp_path, no_locks):
    held_by(tmp_path, HERE)  # the first process started at another time
    with hold_output(tmp_path, lambda: pytest.fail("waited")):
        pass


@pytest.mark.parametrize("text", ["", "{", "[]", '{"host": 1}'])
def test_a_torn_file_counts_as_a_holder_until_its_time_is_over(
    tmp_path, no_locks, monkeypatch, text
):
    (tmp_path / ".holder").write_text(text)
    monkeypatch.setattr(output_lock, "time", clock := Clock())
    with hold_output(tmp_path, lambda: None):
        assert clock.now > output_lock._DEAD_S


@pytest.mark.parametrize("ends", [True, False])
def test_a_holder_elsewhere_is_waited_for_while_it_renews_and_not_longer(
    tmp_path, no_locks, monkeypatch, ends
):
    holder = held_by(tmp_path, THERE)
    waited = []

    def renew(now):
        if now < 1000 and now % 20 == 0:
            os.utime(holder, (now, now))
        elif now == 1001 and ends:
            holder.unlink()

    clock = Clock(renew)
    monkeypatch.setattr(output_lock, "time", clock)
    gone = 0 if ends else output_lock._DEAD_S
    with hold_output(tmp_path, lambda: waited.append(1)):
        assert 980 + gone <= clock.now <= 1010 + gone

    assert waited == [1]


def test_a_holder_is_renewed_until_it_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(output_lock, "_RENEWAL_INTERVAL_S", 0.001)
    holder = tmp_path / ".holder"
    deadline = time.monotonic() + 60
    with hold_output(tmp_path, lambda: None):
        os.utime(holder, (1, 1))
        while holder.stat().st_mtime < 2:
            assert time.monotonic() < deadline

    assert not holder.exists()
