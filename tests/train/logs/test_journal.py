"""What a journal writes, and what a start or a supervisor reads of it after a kill or damage."""

import json
import os
import shutil
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.summary.writer.record_writer import RecordWriter

from clozeline.checksummed_json import add_checksum
from clozeline.errors import StorageError
from clozeline.files import HOST, process_start
from clozeline.run_status import read_status
from clozeline.train.configuration.logs import LogConfig
from clozeline.train.logs.journal import Journal
from clozeline.train.logs.json_lines import read_lines
from tests.clozeline.test_files import set_clock
from tests.sealed_lines import sealed

HERE = HOST.split()[0]


def begun(folder, step=0, rank=0, **config):
    journal = Journal(folder, LogConfig(**{"tensorboard": False, **config}), rank)
    journal.begin(step)
    return journal


@pytest.fixture
def metrics(tmp_path):
    return tmp_path / "metrics.jsonl"


def test_metrics_after_the_checkpoint_are_cut_off(tmp_path, metrics):
    """Also a line that a kill tore in two; an evaluation is a line of its own.

    Bits stay, and not finite is null.
    """
    losses = [0.1, 1 / 3, 3.9010462760925293, 2**-40]
    journal = begun(tmp_path)
    for step, loss in enumerate(losses, 1):
        journal.step({"step": step, "loss": loss, "gradient_norm": float("inf")})
        journal.step({"step": step, "heldout": {"dev": float("nan")}})

    with metrics.open("a") as file:
        file.write('{"step": 6, "lo')

    Journal(tmp_path, LogConfig(tensorboard=False), 0).begin(3, evaluated=True)

    expected = [
        {"step": step, **fields}
        for step, loss in enumerate(losses[:3], 1)
        for fields in ({"loss": loss, "gradient_norm": None}, {"heldout": {"dev": None}})
    ]

    assert read_lines(metrics) == expected

    begun(tmp_path, 3)

    assert read_lines(metrics) == expected[:-1], "the evaluation of that step comes again"


def test_lines_that_are_cut_off_unread_are_counted(tmp_path, metrics):
    """Torn ones, those of no step, and events in the place of metrics.

    A blank one holds nothing.
    """
    kept = sealed(step=1)
    torn = '{"step": 2, "lo'
    metrics.write_text(
        "\n".join(
            (
                kept,
                "",
                sealed(loss=2.0),
                sealed(step="2"),
                sealed(event="data", step=2),
                torn,
                "",
            )
        )
    )

    Journal(tmp_path, LogConfig(tensorboard=False), 0).begin(2)
    assert read_lines(metrics) == [{"step": 1}]


def test_a_last_line_without_its_end_gets_it(tmp_path, metrics):
    metrics.write_text(f"{sealed(step=1)}\n{sealed(step=2)}")
    begun(tmp_path, 2).step({"step": 3})
    assert read_lines(metrics) == [{"step": 1}, {"step": 2}, {"step": 3}]


def test_events_before_the_begin_are_written_then(tmp_path):
    """With the time at which they happened; a start that is refused writes none."""
    journal = Journal(tmp_path, LogConfig(tensorboard=False), 0)
    journal.event("checkpoint_refused", checkpoint="step-00000004")
    journal.status("running", step=9)
    journal.fail(ValueError("refused"))

    assert list(tmp_path.iterdir()) == []

    before = journal.now()
    journal.begin(2, "step-00000002")
    journal.event("resume", step=2)
    events = read_lines(tmp_path / "events.jsonl")

    assert [event["event"] for event in events] == ["checkpoint_refused", "failed", "resume"]
    assert events[0]["time"] <= before <= events[2]["time"]

    found = read_status(tmp_path)

    assert (found.ended, found.step, found.checkpoint) == (False, 2, "step-00000002")


def test_a_full_disk_ends_tensorboard_with_one_line(tmp_path, monkeypatch, capsys):
    """Without a traceback of a thread."""
    threads = threading.active_count()
    journal = begun(tmp_path, 0, tensorboard=True)
    monkeypatch.setattr(RecordWriter, "write", lambda *_: Path("/dev/full").write_bytes(b"0"))
    for step in (1, 2):
        journal.step({"step": step})
    assert threading.active_count() == threads
    journal.close()

    (line,) = capsys.readouterr().err.splitlines()

    assert "TensorBoard" in line
    assert "No space left on device; training continues" in line


def test_tensorboard_draws_the_steps_after_a_checkpoint_again(tmp_path, metrics):
    """Of a resumed run, and of one that goes back while it runs, also to before its first
    record."""
    for first in (0, 3):
        journal = begun(tmp_path, first, tensorboard=True)
        journal.step({"step": first + 1, "loss": -1.0})
        journal.rewind(first)

        assert [line["step"] for line in read_lines(metrics)] == list(range(1, first + 1))

        for step in range(first + 1, 6):
            journal.step({"step": step, "loss": 10.0 * first + step})
        journal.close()

    found = EventAccumulator(str(tmp_path / "tensorboard")).Reload().Scalars("loss")

    assert [(one.step, one.value) for one in found] == [
        (1, 1.0),
        (2, 2.0),
        (3, 3.0),
        (4, 34.0),
        (5, 35.0),
    ]


def test_only_the_first_rank_writes_and_never_through_a_link(tmp_path):
    """Somebody else who may write to the folder has linked a file of ours there."""
    victim = tmp_path / "victim"
    run = tmp_path / "run"
    victim.write_bytes(b"mine\n")
    run.mkdir()

    for rank in (1, 0):
        journal = begun(run, rank=rank)
        journal.step({"step": 1})
        journal.event("start")
        journal.status("running")
        assert bool(list(run.iterdir())) == (rank == 0)

    for name in ("metrics.jsonl", "events.jsonl"):
        (run / name).unlink()
        (run / name).symlink_to(victim)
        with suppress(OSError):
            begun(run).event("start")
        (run / name).unlink()

    assert victim.read_bytes() == b"mine\n"


def test_a_folder_that_cannot_be_written_costs_one_warning(tmp_path, capsys):
    (tmp_path / "gone").mkdir()
    journal = begun(tmp_path / "gone")
    shutil.rmtree(tmp_path / "gone")
    journal.step({"step": 1})
    journal.event("save", step=1)
    journal.status("running")
    journal.rewind(0)
    (line,) = capsys.readouterr().err.splitlines()

    assert line.startswith("warning: records in the run directory: FileNotFoundError: ")
    assert line.endswith("; training continues without it")


def write_status(run, **fields):
    content = {
        "state": "running",
        "step": 4,
        "checkpoint": "step-00000002",
        "pid": os.getpid(),
        "host": HOST,
        "start": process_start(os.getpid()),
        "heartbeat": time.time() - 30.4,
        **fields,
    }

    (run / "status.json").write_text(json.dumps(add_checksum(content)))


def test_a_process_of_this_host_is_looked_for(tmp_path, monkeypatch):
    """By its id and the time of its start, which tells it from a later process of the same id.

    Not by the clock.
    """
    own = f"process {os.getpid()} on {HERE}"
    write_status(tmp_path)

    assert read_status(tmp_path).text == f"running, {own} wrote 30 s ago, step 4, step-00000002"

    set_clock(tmp_path / "proc", 86400, monkeypatch)

    assert not read_status(tmp_path).ended

    write_status(tmp_path, start=process_start(os.getpid()) - 1000)

    assert (
        read_status(tmp_path).text
        == f"not running any more, {own} ended without saying so, step 4, step-00000002"
    )

    ended = subprocess.Popen(["true"])
    ended.wait()
    write_status(tmp_path, pid=ended.pid)

    assert read_status(tmp_path).ended

    unknown = [{"pid": None}, {"start": None}, {"host": "elsewhere"}, {"host": f"{HERE} pid:[1]"}]
    for fields in unknown:  # only its heartbeat is known
        for age in (30.0, 70.0):
            heartbeat = time.time() - age
            write_status(tmp_path, **{"pid": ended.pid, "heartbeat": heartbeat, **fields})
            found = read_status(tmp_path)
            assert (found.ended, found.is_silent) == (False, age > 60)


def test_a_process_that_said_how_it_ended(tmp_path):
    write_status(tmp_path, state="stopped", pid=1, checkpoint=None, step=None, rollbacks=2)
    found = read_status(tmp_path)

    assert (found.ended, found.text) == (
        False,
        "stopped, before step 1, no checkpoint, rollbacks 2",
    )


@pytest.mark.parametrize("raw", [b"", b"\xff\xfe", b'{"state": 3}'])
def test_a_damaged_status_is_not_known(tmp_path, raw):
    assert read_status(tmp_path) is None
    (tmp_path / "status.json").write_bytes(raw)
    found = read_status(tmp_path)
    assert (found.state, found.ended, found.step) == ("unknown", False, None)
    assert found.text == "not known, status.json is damaged; a start writes it again"


def test_a_status_has_what_was_noted_before_it(tmp_path):
    """Also the counters, which go on after a resume."""
    for start in (1, 2):
        journal = begun(tmp_path)
        journal.progress(loss=float("nan"))
        journal.count(steps=1, tokens=7)
        journal.status("running", checkpoint="step-00000006", exit_code=75)
        found = read_status(tmp_path)
        assert (found.checkpoint, found.fields["exit_code"]) == ("step-00000006", 75)
        assert found.fields["totals"] == {"steps": start, "tokens": 7 * start}
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".jsonl", ".prom"}


@pytest.mark.parametrize("name", ["metrics.jsonl", "events.jsonl"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_start_refuses_what_is_no_file(tmp_path, name, make):
    make(tmp_path / name)
    with pytest.raises((OSError, StorageError), match=name):
        begun(tmp_path)
    with pytest.raises(StorageError, match=name):
        read_lines(tmp_path / name)
