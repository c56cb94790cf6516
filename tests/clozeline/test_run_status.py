"""The files that say where a run is: renewed whatever the process does, also on a full disk."""

import ast
import re
import threading
import time
from contextlib import nullcontext
from errno import ENOSPC

import pytest

from clozeline import run_status
from clozeline.run_status import StatusFile, read_status

SAMPLE = re.compile(r'(clozeline_[a-z_]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)+)\} (\S+)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')


def parse(text):
    """Return the samples of a text in the format of Prometheus, by name and labels.

    HELP and TYPE stand once before the samples of their name; no other line has a sample.
    """
    found = {}
    helped, kind = "", {}
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            helped = line.split(" ", 3)[2]
        elif line.startswith("# TYPE "):
            _, _, name, kind_of = line.split(" ")
            assert helped == name not in kind
            assert (kind_of == "counter") == name.endswith("_total")
            kind[name] = kind_of
        elif line.strip("# "):
            name, labels, value = SAMPLE.fullmatch(line).groups()
            assert name == helped in kind
            pairs = (
                (key, ast.literal_eval(f'"{quoted}"')) for key, quoted in LABEL.findall(labels)
            )
            assert found.setdefault((name, frozenset(pairs)), float(value)) == float(value)
    return found


def begun(folder, **fields):
    folder.mkdir(exist_ok=True)
    status = StatusFile(folder, nullcontext)
    status.write("running", **fields)
    return status


def samples(folder):
    return parse((folder / "metrics.prom").read_text(encoding="utf-8"))


def test_labels_are_escaped_and_counters_go_on_after_a_resume(tmp_path):
    folder = tmp_path / 'a "b"\\\nc'
    reason = '"x\\\n'
    for start in (1, 2):
        status = begun(folder, loss=0.5, units_left=None)
        dropped = status.totals.get("rejected", {}).get("clean", {}).get("document", {})
        count = dropped.get(reason, 0) + 3
        status.note(totals={"steps": start, "rejected": {"clean": {"document": {reason: count}}}})
        status.write("done", exit_code=0)
        found = samples(folder)

        def value(name, found=found, **labels):
            return found.get(
                (f"clozeline_{name}", frozenset({"output": str(folder), **labels}.items()))
            )

        labels = {"stage": "clean", "unit": "document", "reason": reason}
        assert value("rejected_total", **labels) == 3 * start
        assert (value("steps_total"), value("loss"), value("exit_code")) == (start, 0.5, 0)
        assert (value("units_left"), value("state", state="done")) == (None, 1)
        assert abs(value("heartbeat_timestamp_seconds") - time.time()) < 600


def test_a_thread_renews_a_run_whose_work_is_stuck(tmp_path, monkeypatch):
    """The time of the last progress stays; an end is never overwritten."""
    monkeypatch.setattr(run_status, "_INTERVAL_S", 0.001)
    status = begun(tmp_path)
    first = read_status(tmp_path).fields
    threads = threading.active_count()
    with status.renewed():
        while (last := read_status(tmp_path).fields)["heartbeat"] == first["heartbeat"]:
            pass
        assert last["progress"] == first["progress"]
        status.write("failed", error="x")
        for _ in range(20):
            assert read_status(tmp_path).state == "failed"
    assert threading.active_count() == threads


@pytest.mark.parametrize("state", ["running", "failed"])
def test_on_a_full_disk_the_files_are_written_in_place(tmp_path, monkeypatch, state):
    status = begun(tmp_path)
    sizes = {path: path.stat().st_size for path in tmp_path.iterdir()}

    def refuse(*_, **__):
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(run_status, "replacing", refuse)
    status.write(state, error="e" * 1000, exit_code=74)

    assert {path: path.stat().st_size for path in tmp_path.iterdir()} == sizes
    assert read_status(tmp_path).fields["exit_code"] == 74
    assert read_status(tmp_path).state == state
    assert 74 in samples(tmp_path).values()

    with pytest.raises(OSError, match="space"):
        begun(tmp_path / "new")


def test_a_file_of_the_user_stays(tmp_path):
    (tmp_path / "metrics.prom").write_text("mine 1\n")
    begun(tmp_path)
    assert (tmp_path / "metrics.prom").read_text() == "mine 1\n"
    assert parse((tmp_path / "clozeline-metrics.prom").read_text())
