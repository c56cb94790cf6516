"""The thread that ends a process without progress; whole runs that hang are in test_faults."""

import threading

from clozeline.train.distributed import watchdog
from clozeline.train.distributed.watchdog import Watchdog


def test_no_beat_ends_the_process_with_stacks(monkeypatch, capsys):
    guard = Watchdog(0.001, rank=3)
    ended = threading.Event()
    codes = []
    dumped = []

    def leave(code):
        codes.append(code)
        guard._closed = True  # the real one never returns
        ended.set()

    def dump(*, file, all_threads):
        dumped.append(all_threads)

    monkeypatch.setattr(watchdog.os, "_exit", leave)
    monkeypatch.setattr(watchdog.faulthandler, "dump_traceback", dump)
    monkeypatch.setenv("TORCH_FR_DUMP_TEMP_FILE", "/somewhere/trace_")
    with guard:
        assert ended.wait(60)

    assert (codes, dumped) == ([70], [True])

    said = capsys.readouterr().err

    assert said.startswith("error: rank 3: no progress for 0.001 s (watchdog_s)")
    assert "NCCL's last ones are in /somewhere/trace_3\n" in said


def test_the_end_of_the_run_ends_the_thread():
    with Watchdog(3600.0) as guard:
        guard.beat()
        assert guard._thread.is_alive()

    assert not guard._thread.is_alive()

    with Watchdog(0.0) as off:
        assert not off._thread.is_alive()
