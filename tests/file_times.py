"""Print the CPU seconds of the slowest test files: `make test PYTEST_ADDOPTS="-p tests.file_times"`.

They are those of the worker and of all processes that it has started, so they say what a file costs where tests wait.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from typing import Any

import psutil
import pytest

SHOWN = 10
_seconds = Counter[str]()
_before = 0.0


def processor_seconds() -> float:
    """Return the CPU seconds of this process and of all that it has started: ended or still at work."""
    total = sum(os.times()[:4])
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:4])
    return total


def pytest_collection_finish() -> None:
    global _before
    _before = processor_seconds()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
    global _before
    done = yield
    if nextitem is None or nextitem.path != item.path:
        now = processor_seconds()
        # a child that was killed, and nobody waited for, takes its seconds along
        _seconds[item.nodeid.partition("::")[0]] += max(0.0, now - _before)
        _before = now
    return done


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["file_times"] = dict(_seconds)


def pytest_testnodedown(node: Any) -> None:
    """Add what a worker of pytest-xdist has measured."""
    _seconds.update(getattr(node, "workeroutput", {}).get("file_times", {}))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.section(f"CPU seconds of {len(_seconds)} files: {sum(_seconds.values()):.0f}")
    for file, seconds in _seconds.most_common(SHOWN):
        terminalreporter.write_line(f"{seconds:7.1f} {file}")
