"""Write and read status.json: where a pipeline or a training is, and why it ended."""

import json
import math
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from clozeline.checksummed_json import add_checksum, verify_checksum
from clozeline.configuration.redaction import redact
from clozeline.files import process_start, read_json, replacing, still_runs

_STATUS: Final = "status.json"
_PAUSE_S: Final = 1.0
"""Minimum seconds between two renewals: replacing the file costs as much as a record."""
UNKNOWN: Final = "unknown"


class StatusFile:
    """The file status.json of a folder; a reader never sees a half-written one.

    Raises:
        OSError: the file cannot be written (all methods).
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / _STATUS
        self._beaten = -math.inf
        """Time of the last heartbeat, on the monotonic clock."""
        self._fields: dict[str, object] = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "started": time.time(),
            "start": process_start(os.getpid()),
        }

    def write(self, state: str, **fields: object) -> None:
        """Replace the file: `state` is running, done, stopped or failed."""
        self._beaten = time.monotonic()
        self._fields |= {"state": state, "heartbeat": time.time(), **redact(fields)}
        with replacing(self._path, durable=False) as temporary:
            temporary.write_text(
                json.dumps(add_checksum(self._fields), indent=1) + "\n", encoding="utf-8"
            )

    def renew(self, **fields: object) -> None:
        """Add fields, and replace the file with its heartbeat, at most once a second."""
        self._fields |= redact(fields)
        if time.monotonic() - self._beaten >= _PAUSE_S:
            self.write("running")


@dataclass(frozen=True)
class RunStatus:
    """The content of status.json."""

    state: str
    """running, done, stopped or failed; unknown if status.json is damaged"""
    ended: bool
    """the process ran on this host and is gone: it was killed, or ended by the watchdog"""
    step: int | None
    checkpoint: str | None
    """name of the newest checkpoint"""
    process: str
    """process id and host"""
    silence: float = 0.0
    """seconds since the last heartbeat"""
    heldout: Mapping[str, Any] = field(default_factory=dict)
    """results of the last evaluation, by held-out set"""
    rollbacks: int = 0
    """returns to an earlier checkpoint after a divergence"""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """all fields of the file"""

    @property
    def state_text(self) -> str:
        """The state, and what is known of a process that says it runs."""
        if self.state == UNKNOWN:
            return "not known, status.json is damaged; a start writes it again"
        if self.ended:
            return f"not running any more, {self.process} ended without saying so"
        if self.state == "running":
            return f"running, {self.process} wrote {self.silence:.0f} s ago"
        return self.state

    @property
    def text(self) -> str:
        """The status of a training as text."""
        if self.state == UNKNOWN:
            return self.state_text
        step = "before step 1" if self.step is None else f"step {self.step}"
        rollbacks = f", rollbacks {self.rollbacks}" if self.rollbacks else ""
        return f"{self.state_text}, {step}, {self.checkpoint or 'no checkpoint'}{rollbacks}"


def read_status(folder: Path) -> RunStatus | None:
    """Return the status of a run; None if the folder has no status.json."""
    path = folder / _STATUS

    try:
        status = verify_checksum(read_json(path) or {}, path)
    except ValueError:
        status = {}

    if not isinstance(status.get("state"), str):
        return RunStatus(UNKNOWN, False, None, None, "") if os.path.lexists(path) else None
    # any field may be damaged
    step = status.get("step")
    checkpoint = status.get("checkpoint")
    heartbeat = status.get("heartbeat")
    rollbacks = status.get("rollbacks")
    heldout = status.get("heldout")
    return RunStatus(
        state=status["state"],
        ended=status["state"] == "running" and _has_ended(status),
        step=step if isinstance(step, int) else None,
        checkpoint=checkpoint if isinstance(checkpoint, str) else None,
        process=f"process {status.get('pid')} on {status.get('host')}",
        silence=time.time() - heartbeat if isinstance(heartbeat, float) else math.inf,
        rollbacks=rollbacks if isinstance(rollbacks, int) else 0,
        heldout=heldout if isinstance(heldout, Mapping) else {},
        fields=status,
    )


def _has_ended(status: Mapping[str, Any]) -> bool:
    """Return whether a process of this host no longer runs; False on other hosts."""
    try:
        return status["host"] == socket.gethostname() and not still_runs(
            int(status["pid"]), float(status["start"])
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return True
