"""Read the status of a run, and check whether its process still runs."""

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from clozeline.files import read_json, still_runs
from clozeline.sealed_json import unseal

_UNKNOWN: Final = "unknown"
_SILENCE_S: Final = 3600.0
"""Seconds without a heartbeat after which a process on another host, without watchdog, counts as ended."""
_MARGIN_S: Final = 60.0
"""Tolerance for clocks of different hosts."""


@dataclass(frozen=True)
class RunStatus:
    """The content of status.json."""

    state: str
    """running, done, stopped or failed; unknown if status.json is damaged"""
    ended: bool
    """the process no longer runs: killed, ended by the watchdog, or its machine went down"""
    step: int | None
    checkpoint: str | None
    """name of the newest checkpoint"""
    process: str
    """process id and host"""
    heldout: Mapping[str, Any] = field(default_factory=dict)
    """results of the last evaluation, by held-out set"""
    rollbacks: int = 0
    """returns to an earlier checkpoint after a divergence"""

    @property
    def text(self) -> str:
        """The status as text."""
        if self.state == _UNKNOWN:
            return "not known, status.json is damaged; a start writes it again"
        state = f"not running any more, {self.process} ended without saying so" if self.ended else self.state
        step = "before step 1" if self.step is None else f"step {self.step}"
        back = f", rollbacks {self.rollbacks}" if self.rollbacks else ""
        return f"{state}, {step}, {self.checkpoint or 'no checkpoint'}{back}"


def read_status(run: Path, now: float | None = None) -> RunStatus | None:
    """Return the status of a run directory; None if status.json is missing."""
    path = run / "status.json"
    try:
        status = unseal(read_json(path) or {}, path)
    except ValueError:
        status = {}
    if not isinstance(status.get("state"), str):
        return RunStatus(_UNKNOWN, False, None, None, "") if os.path.lexists(path) else None
    step, checkpoint = status.get("step"), status.get("checkpoint")
    return RunStatus(
        state=status["state"],
        ended=status["state"] == "running" and not _is_alive(status, time.time() if now is None else now),
        step=step if isinstance(step, int) else None,
        checkpoint=checkpoint if isinstance(checkpoint, str) else None,
        process=f"process {status.get('pid')} on {status.get('host')}",
        rollbacks=rollbacks if isinstance(rollbacks := status.get("rollbacks"), int) else 0,
        heldout=heldout if isinstance(heldout := status.get("heldout"), Mapping) else {},
    )


def _is_alive(status: dict[str, Any], now: float) -> bool:
    """Return whether the process runs; on another host, by its last heartbeat."""
    try:
        if status["host"] == socket.gethostname():
            return still_runs(int(status["pid"]), float(status["start"]))
        last = float(status["heartbeat"])
        return bool(now - last <= (status.get("watchdog_s") or _SILENCE_S) + _MARGIN_S)
    except (KeyError, TypeError, ValueError):
        return False
