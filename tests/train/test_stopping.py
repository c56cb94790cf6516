"""Requests to stop: signals and the end of the launcher."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace

import pytest

from train import stopping
from train.stopping import StopRequest


def test_signals_are_taken_once_and_handlers_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopRequest() as stop:
        assert not stop.wanted()
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)  # the same request, forwarded by a launcher
        assert stop.wanted()
        assert stop.reason == "SIGTERM"
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_second_request_after_a_while_exits_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    clock = iter([100.0, 100.0 + stopping._FORWARDED_S + 1])
    monkeypatch.setattr(stopping.os, "_exit", codes.append)
    monkeypatch.setattr(stopping.time, "monotonic", lambda: next(clock))
    stop = StopRequest()
    stop._receive(signal.SIGINT, None)
    stop._receive(signal.SIGINT, None)
    assert codes == [130]


def test_a_request_ends_a_wait_but_no_step() -> None:
    with StopRequest() as stop:
        stop.interrupts = True
        with pytest.raises(stopping.Interrupted):
            os.kill(os.getpid(), signal.SIGTERM)
        assert not stop.interrupts
        assert stop.reason == "SIGTERM"


def test_the_end_of_the_launcher_is_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parent of the node process changes when the command that started it ends."""
    monkeypatch.setenv("CROSS_RANK", "0")
    parents = iter([500, 500, 1])
    monkeypatch.setattr(stopping.psutil, "Process", lambda _: SimpleNamespace(ppid=lambda: next(parents)))
    stop = StopRequest()
    assert not stop.wanted()
    assert stop.wanted()
    assert stop.reason == "the launcher has ended"
    assert stop.wanted(), "a request is never taken back"


def test_process_started_by_hand_has_no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CROSS_RANK", raising=False)
    monkeypatch.setattr(stopping.psutil, "Process", None)
    assert not StopRequest().wanted()
