"""Requests to stop: signals and the end of the launcher."""

import os
import signal
from types import SimpleNamespace

import pytest

from clozeline.train.distributed import stopping
from clozeline.train.distributed.stopping import StopRequest


@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGXCPU"])
def test_signals_are_taken_once_and_handlers_put_back(name):
    number = signal.Signals[name]
    before = signal.getsignal(number)

    with StopRequest() as stop:
        assert not stop.is_set()
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)  # the same request, forwarded by a launcher
        assert stop.is_set()
        assert stop.reason == name

    assert signal.getsignal(number) is before


@pytest.mark.usefixtures("default_signals")
def test_signals_that_are_ignored_stay_so(monkeypatch):
    """As in a run in the background, by `nohup` or by `&` in a script."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGHUP)
        assert not stop.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.is_set()

    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_a_second_request_after_a_while_exits_at_once(monkeypatch):
    codes = []
    clock = iter([100.0, 100.0 + stopping._FORWARDED_S + 1])
    monkeypatch.setattr(stopping.os, "_exit", codes.append)
    monkeypatch.setattr(stopping.time, "monotonic", lambda: next(clock))
    stop = StopRequest()
    stop._receive(signal.SIGINT, None)
    stop._receive(signal.SIGINT, None)

    assert codes == [130]


def test_a_warning_that_comes_again_or_before_a_request_ends_no_save(monkeypatch):
    """SIGXCPU comes every second, and SIGTERM minutes after SIGUSR1: the step or the save in
    between goes on."""
    codes = []
    clock = iter(range(100, 900, 100))
    monkeypatch.setattr(stopping.os, "_exit", codes.append)
    monkeypatch.setattr(stopping.time, "monotonic", lambda: next(clock))
    stop = StopRequest()
    for number in (
        signal.SIGUSR1,
        signal.SIGXCPU,
        signal.SIGXCPU,
        signal.SIGTERM,
        signal.SIGUSR1,
    ):
        stop._receive(number, None)

    assert (stop.reason, codes) == ("SIGUSR1", [])

    stop._receive(signal.SIGTERM, None)

    assert codes == [143]


def test_a_request_ends_a_wait_but_no_step():
    with StopRequest() as stop:
        stop.interrupts = True
        with pytest.raises(stopping.Interrupted):
            os.kill(os.getpid(), signal.SIGTERM)
        assert not stop.interrupts
        assert stop.reason == "SIGTERM"


def test_the_end_of_the_launcher_is_a_request(monkeypatch):
    """The parent of the node process changes when the command that started it ends."""
    monkeypatch.setenv("CROSS_RANK", "0")
    parents = iter([500, 500, 1])
    monkeypatch.setattr(
        stopping.psutil, "Process", lambda _: SimpleNamespace(ppid=lambda: next(parents))
    )
    stop = StopRequest()

    assert not stop.is_set()
    assert stop.is_set()
    assert stop.reason == "the launcher has ended"
    assert stop.is_set(), "a request is never taken back"

    monkeypatch.delenv("CROSS_RANK")

    assert not StopRequest().is_set(), "a process that was started by hand has none"
