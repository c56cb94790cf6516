"""Damaged, changing and slow files.

Interrupts, forks, kills and closing: no wrong row, no thread that stays.
"""

import contextlib
import gc
import os
import signal
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from clozeline.errors import StreamError
from clozeline.pipeline.shards import DamagedBlock, ShardSet
from tests.shard_sets import toy_set
from tests.train.data.stream.streams import open_stream as open_toy
from tests.train.data.stream.streams import rows_of

open_stream = partial(open_toy, micro_batch=8, io_threads=2)


def open_files():
    """(descriptor, what it is open on) of this process."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the descriptor of this listing itself
            found.add((entry.name, str(entry.readlink())))
    return found


def test_close_leaves_no_threads_and_no_files(tmp_path):
    shards = toy_set(tmp_path, [100])
    before = set(threading.enumerate())
    files = open_files()
    stream = open_stream(shards, io_threads=3)
    one_pass = stream.one_pass()
    next(one_pass)
    stream.next_step()

    assert set(threading.enumerate()) - before

    one_pass.close()
    stream.close()
    stream.close()

    assert set(threading.enumerate()) <= before
    assert open_files() <= files

    with pytest.raises(StreamError, match="closed"):
        stream.next_step()
    with pytest.raises(StreamError, match="closed"):
        next(stream.one_pass())


@pytest.mark.usefixtures("default_signals")
def test_ctrl_c_interrupts_a_wait_and_close_does_not_hang(tmp_path, monkeypatch):
    """A store that never answers: the interrupt arrives in `next_step`, and closing does not wait
    for the read."""
    begun = threading.Event()
    never = threading.Event()
    ended = []

    def stalled(*arguments):
        begun.set()
        ended.append(never.wait(30))
        raise AssertionError("released")

    monkeypatch.setattr(ShardSet, "read_block", stalled)
    stream = open_stream(toy_set(tmp_path, [100]))

    def interrupt():
        begun.wait(20)
        time.sleep(0.1)  # a signal right before a wait does not interrupt it
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        stream.next_step()
    stream.close()

    assert not ended, "closed while the read was still waiting"

    never.set()


def test_a_dropped_stream_ends_its_threads(tmp_path):
    """These streams are not closed: threads that held them would stay, with all rows they have
    loaded."""
    shards = toy_set(tmp_path, [100])
    before = threading.active_count()

    for _ in range(50):
        stream = open_stream(shards, io_threads=2)
        stream.next_step()
        del stream

    gc.collect()
    deadline = time.monotonic() + 20
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)

    assert threading.active_count() <= before


CHANGES = (
    "empty",
    "half",
    "longer",
    "overwritten",
    "another's",
    "swapped",
    "deleted",
    "a folder",
    "a pipe",
)
# three passes over the set
SIZES = [24, 24, 24]
STEPS = 27


def change(name, path, other):
    size = path.stat().st_size

    if name in ("empty", "half", "longer"):
        os.truncate(
            path,
            {
                "empty": 0,
                "half": size // 2,
                "longer": 2 * size,
            }[name],
        )
    elif name in ("overwritten", "another's"):
        path.write_bytes(bytes(size) if name == "overwritten" else other.read_bytes())
    elif name == "swapped":
        between = path.rename(path.with_suffix(".between"))
        other.rename(path)
        between.rename(other)
    else:
        path.unlink()
        if name == "a folder":
            path.mkdir()
        elif name == "a pipe":
            os.mkfifo(path)


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    with open_stream(toy_set(tmp_path_factory.mktemp("whole"), SIZES)) as stream:
        return [rows_of(stream.next_step()) for _ in range(STEPS)]


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("skipped", [0.0, 1.0])
def test_files_that_change_give_a_named_error_or_filler_and_never_another_row(
    tmp_path, monkeypatch, expected, name, skipped
):
    monkeypatch.setattr("clozeline.train.data.stream.rounds._PAUSE_S", 0)
    shards = toy_set(tmp_path / "set", SIZES)
    lost = 0
    damaged = None

    with open_stream(shards, max_damaged_fraction=skipped) as stream:
        try:
            for step in range(STEPS):
                for row, whole in zip(rows_of(stream.next_step()), expected[step], strict=True):
                    assert row == whole or (skipped and row[2] == 0.0)
                    lost += row != whole
                if step == 1:
                    change(name, shards.shard_path(1), shards.shard_path(2))
        except DamagedBlock as error:
            damaged = error

    assert (damaged is None) == bool(skipped or name == "longer")
    assert damaged is None or damaged.shard in {str(shards.shard_path(number)) for number in (1, 2)}
    assert (lost == 0) == (not skipped or name == "longer")
