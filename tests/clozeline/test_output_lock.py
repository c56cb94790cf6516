"""One run at a time: on one machine, and on machines whose file system keeps no locks."""

import errno
import json
import os
import subprocess
import sys
from contextlib import nullcontext

import pytest

from clozeline import output_lock
from clozeline.errors import ConfigurationError, StorageError
from clozeline.files import HOST, process_start
from clozeline.output_lock import hold_output, lock
from tests.pipeline.execution.executors.external_workers import until
from tests.refusals import refused

HERE = {"host": HOST, "pid": 1, "start": process_start(1) + 9.0}
THERE = {"host": "elsewhere", "pid": 1, "start": -1e6}
LOCKLESS = """
import errno, fcntl, platform
def flock(*_): raise OSError(errno.ENOSYS, "Function not implemented")
fcntl.flock, platform.node = flock, lambda: "elsewhere"
"""
HOLD = """
import sys
from pathlib import Path
from clozeline.output_lock import hold_output
with hold_output(Path(sys.argv[1]), print):
    print("held", flush=True)
    input()
"""


class Clock:
    """A clock that only sleeping moves; `then` runs after each sleep."""

    def __init__(self, then):
        self.now = 0.0
        self.then = then

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        assert self.now < 10_000
        self.then(self.now)


@pytest.mark.parametrize("elsewhere", [False, True], ids=["one host", "two hosts without locks"])
def test_a_second_process_waits_until_the_first_ends(tmp_path, elsewhere):
    command = [sys.executable, "-c", LOCKLESS * elsewhere + HOLD, str(tmp_path)]
    pipe = subprocess.PIPE
    other = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    assert other.stdout.readline() == "held\n"

    waited = []
    with hold_output(tmp_path, lambda: waited.append(other.communicate("\n"))):
        assert len(waited) == 1
    with hold_output(tmp_path, lambda: pytest.fail("waited")):
        assert json.loads((tmp_path / ".holder").read_text())["pid"] == os.getpid()

    assert not (tmp_path / ".holder").exists()


def test_a_holder_that_cannot_be_written_holds_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(output_lock.json, "dumps", full)
    with pytest.raises(StorageError, match="No space left"), hold_output(tmp_path, lambda: None):
        pass

    assert not (tmp_path / ".holder").exists()


@pytest.mark.parametrize(
    ("content", "renewed", "waits"),
    [
        (json.dumps(HERE), 0, 0),  # the first process started at another time
        ("", 0, 180),
        ('{"host": 1}', 0, 180),
        (json.dumps(THERE), 0, 180),
        (json.dumps(THERE), 1000, 1160),
        (json.dumps(THERE), None, 1001),
    ],
)
def test_a_holder_is_waited_for_while_it_renews_and_not_much_longer(
    tmp_path, monkeypatch, content, renewed, waits
):
    """On a file system without locks; None: it is renewed until it is removed."""

    def refuse(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    def renew(now):
        if renewed is None and now == 1001:
            holder.unlink()
        elif now % 20 == 0 and now < (1001 if renewed is None else renewed):
            os.utime(holder, (now, now))

    monkeypatch.setattr("fcntl.flock", refuse)
    monkeypatch.setattr(output_lock, "time", clock := Clock(renew))
    holder = tmp_path / ".holder"
    holder.write_text(content)
    waited = []
    with hold_output(tmp_path, lambda: waited.append(1)):
        assert waits <= clock.now <= waits + 2

    assert len(waited) == (waits > 0)


@pytest.mark.parametrize(
    ("content", "renewed", "seconds"),
    [
        (json.dumps(HERE | {"pid": os.getpid(), "start": process_start(os.getpid())}), 0, 0),
        (json.dumps(THERE), 1000, 20),
        (json.dumps(THERE), 0, None),
        ("", 0, None),
    ],
    ids=["here", "there", "there, silent", "empty"],
)
def test_without_waiting_a_live_holder_is_refused_where_locks_are_missing(
    tmp_path, monkeypatch, capsys, content, renewed, seconds
):
    """None: it has died, and is replaced. So is the lock of an early version."""

    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    def renew(now):
        if now % 20 == 0 and now < renewed:
            os.utime(holder, (now, now))

    monkeypatch.setattr("fcntl.flock", refuse)
    monkeypatch.setattr(output_lock, "time", clock := Clock(renew))
    holder = tmp_path / ".holder"
    holder.write_text(content)
    (tmp_path / ".lock").write_text("123")
    with nullcontext() if seconds is None else refused("in use by process"), hold_output(tmp_path):
        assert json.loads(holder.read_text())["pid"] == os.getpid()

    assert holder.exists() is (seconds is not None)
    assert clock.now <= (180 if seconds is None else seconds) + 2
    assert (".holder: waiting" in capsys.readouterr().err) is (clock.now > 0)


@pytest.mark.parametrize("make", [lambda path: path.write_text("mine"), os.mkfifo])
def test_a_holder_of_somebody_else_stays(tmp_path, make):
    holder = tmp_path / ".holder"
    make(holder)
    with pytest.raises(ConfigurationError, match="holder"), hold_output(tmp_path, lambda: None):
        pass

    assert holder.exists()


def test_a_holder_that_is_removed_while_it_is_read_is_nobody_elses_file(tmp_path, monkeypatch):
    """Also one that a network file system lists before it opens it."""
    monkeypatch.setattr(output_lock, "read_json", lambda path: path.unlink())
    (tmp_path / "1.claim").write_text(json.dumps(THERE))

    assert not output_lock.Holder(tmp_path / "1.claim").has_died()


def test_a_holder_is_renewed_until_it_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(output_lock, "_RENEWAL_INTERVAL_S", 0.001)
    holder = tmp_path / ".holder"
    with hold_output(tmp_path, lambda: None):
        os.utime(holder, (1, 1))
        until(lambda: holder.stat().st_mtime > 1)

    assert not holder.exists()


@pytest.mark.parametrize(
    ("code", "raised"),
    [
        (errno.ENOSYS, False),
        (errno.ENOLCK, False),
        (errno.EBADF, True),
    ],
)
def test_a_disk_without_locks_locks_everything(tmp_path, monkeypatch, code, raised):
    def refuse(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("fcntl.flock", refuse)
    with (tmp_path / "a").open("w") as file, pytest.raises(OSError) if raised else nullcontext():
        assert lock(file)
