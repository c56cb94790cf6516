"""Write and read status.json: where a pipeline or a training is, and why it ended.

The same writer keeps metrics.prom beside it, in the text format of Prometheus
(https://prometheus.io/docs/instrumenting/exposition_formats/).
"""

import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from clozeline.checksummed_json import add_checksum, verify_checksum
from clozeline.configuration.redaction import leaves, redact
from clozeline.files import (
    choose_page_path,
    has_ended,
    identify_process,
    open_unlinked,
    read_json,
    replacing,
)
from clozeline.memory import resident_bytes
from clozeline.process import repeating

_STATUS: Final = "status.json"
METRICS: Final = "metrics.prom"
_INTERVAL_S: Final = 1.0
"""Seconds between two renewals."""
_SILENT_S: Final = 60.0
"""Age of a heartbeat from which on nothing says that the process runs."""
_ROOM: Final = 2048
"""Bytes by which a file is longer than its text: room for the error of a run on a full disk."""
UNKNOWN: Final = "unknown"
STATES: Final = ("running", "done", "stopped", "failed")
_TOTAL: Final = "_total"
"""End of the names of counters; their values stand in `totals`."""
_METRICS: Final[Mapping[str, tuple[str, tuple[str, ...], str]]] = {
    "heartbeat_timestamp_seconds": ("heartbeat", (), "When the process last wrote."),
    "progress_timestamp_seconds": ("progress", (), "When a unit, step, batch or save ended."),
    "state": ("state", ("state",), "1 for the state of the run, 0 for the others."),
    "exit_code": ("exit_code", (), "Exit code of a run that ended."),
    "resident_memory_bytes": ("memory_bytes", (), "Memory of the process that writes this."),
    "device_memory_bytes": ("device_bytes", (), "Most memory of the accelerator so far."),
    "units_left": ("units_left", (), "Units that the pass still makes."),
    "workers": ("workers", (), "Workers seen in the last minute."),
    "read_per_second": ("read_per_second", ("unit",), "Speed of the pass so far."),
    "loss": ("loss", (), "Loss of the last logged step."),
    "learning_rate": ("learning_rate", (), "Learning rate of the last logged step."),
    "tokens_per_second": ("tokens_per_s", (), "Speed of the last logged step."),
    "units_total": ("", ("stage", "status"), "Units that ended."),
    "documents_total": ("", ("stage",), "Documents that units read."),
    "written_bytes_total": ("", ("stage",), "Bytes that units wrote."),
    "rejected_total": ("", ("stage", "unit", "reason"), "What units dropped."),
    "units_retried_total": ("", ("stage",), "Units that ran again because their worker died."),
    "worker_deaths_total": ("", ("stage",), "Workers that died while they ran a unit."),
    "steps_total": ("", (), "Steps made, those made again included."),
    "tokens_total": ("", (), "Tokens trained on, those of repeated steps included."),
    "skipped_steps_total": ("", (), "Steps whose gradient was not finite."),
}
"""Name without prefix: field of status.json, labels of nested values, help. Fields of counters are
their names in `totals`."""
_MARK: Final = "# HELP clozeline_"
"""Start of metrics.prom: the record that the file is ours."""


class StatusFile:
    """The files status.json and metrics.prom of a folder; a reader never sees a half-written one.

    Args:
        folder: the output of the run.
        guard: keeps an error of a file from ending the run.
    """

    def __init__(self, folder: Path, guard: Callable[[], AbstractContextManager[None]]) -> None:
        self._folder = folder
        self._guard = guard
        self._lock = threading.Lock()
        self._metrics = choose_page_path(folder / METRICS, _MARK)
        earlier = read_status(folder)
        self._fields: dict[str, Any] = {
            **identify_process(),
            "started": time.time(),
            "totals": {} if earlier is None else earlier.fields.get("totals", {}),
        }

    @property
    def totals(self) -> dict[str, Any]:
        """What this run and those before it in the folder have done: names to counts."""
        totals: dict[str, Any] = self._fields["totals"]
        return totals

    def note(
        self, *, moved: bool = True, totals: Mapping[str, Any] | None = None, **fields: object
    ) -> None:
        """Add fields, which the next renewal writes; `moved`: the work has made progress."""
        with self._lock:
            self._fields |= redact(fields)
            if totals is not None:  # names of stages and reasons are no secrets
                self._fields["totals"] = totals
            if moved:
                self._fields["progress"] = time.time()

    def write(self, state: str, **fields: Any) -> None:
        """Replace the files: `state` is one of `STATES`."""
        self.note(state=state, **fields)
        with self._guard(), self._lock:
            self._replace()

    def renewed(self) -> AbstractContextManager[None]:
        """Renew the files every second during the block, whatever it does, while `running`."""
        return repeating(_INTERVAL_S, self._renew)

    def _renew(self) -> None:
        with self._guard(), self._lock:
            if self._fields["state"] == STATES[0]:
                self._replace()

    def _replace(self) -> None:
        self._fields |= {"heartbeat": time.time(), "memory_bytes": resident_bytes()}
        _put(self._folder / _STATUS, json.dumps(add_checksum(self._fields), indent=1))
        _put(self._metrics, "\n".join([*_metric_lines(self._fields, self._folder), "#"]))


def _put(path: Path, text: str) -> None:
    """Replace a file; on a full disk, write into the file itself, which has room."""
    raw = text.encode("utf-8", "replace")
    try:
        with replacing(path, durable=False) as temporary:
            temporary.write_bytes(raw.ljust(len(raw) + _ROOM) + b"\n")
    except OSError:
        if not path.is_file():
            raise
        with open_unlinked(path, "r+b") as file:
            size = max(os.fstat(file.fileno()).st_size, len(raw) + 1)
            os.posix_fallocate(file.fileno(), 0, size)  # fails before anything is overwritten
            file.write(raw.ljust(size - 1) + b"\n")


def _metric_lines(fields: Mapping[str, Any], folder: Path) -> Iterator[str]:
    """Yield the lines of metrics.prom."""
    states = {state: int(state == fields["state"]) for state in STATES}
    for name, (key, labels, about) in _METRICS.items():
        is_counter = name.endswith(_TOTAL)
        value = fields["totals"].get(name.removesuffix(_TOTAL)) if is_counter else fields.get(key)
        found = leaves(states if name == "state" else value)
        series = [(keys, value) for keys, value in found if isinstance(value, (int, float))]
        if series:
            yield f"# HELP clozeline_{name} {about}"
            yield f"# TYPE clozeline_{name} {'counter' if is_counter else 'gauge'}"
        for keys, value in series:
            pairs = zip(("output", *labels), (str(folder.absolute()), *keys), strict=True)
            inner = ",".join(f"{label}={_quote(text)}" for label, text in pairs)
            yield f"clozeline_{name}{{{inner}}} {value}"


def _quote(text: str) -> str:
    escaped = text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'"{escaped}"'


@dataclass(frozen=True)
class RunStatus:
    """The content of status.json."""

    state: str
    """running, done, stopped or failed; unknown if status.json is damaged"""
    ended: bool
    """the process ran on this host, in this namespace of processes, and is gone: it was killed, or
    ended by the watchdog"""
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
    def is_silent(self) -> bool:
        """Whether it says that it runs, but has not said so for a minute."""
        return self.state == "running" and not self.ended and self.silence > _SILENT_S

    @property
    def state_text(self) -> str:
        """The state, and what is known of a process that says it runs."""
        if self.state == UNKNOWN:
            return "not known, status.json is damaged; a start writes it again"
        if self.ended:
            return f"not running any more, {self.process} ended without saying so"
        if self.state == "running":
            if self.is_silent:
                return (
                    f"silent for {self.silence:,.0f} s, {self.process}: it was killed, or its "
                    "machine or the file system does not answer"
                )
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
        ended=status["state"] == "running" and has_ended(status),
        step=step if isinstance(step, int) else None,
        checkpoint=checkpoint if isinstance(checkpoint, str) else None,
        process=f"process {status.get('pid')} on {str(status.get('host')).partition(' ')[0]}",
        silence=time.time() - heartbeat if isinstance(heartbeat, float) else math.inf,
        rollbacks=rollbacks if isinstance(rollbacks, int) else 0,
        heldout=heldout if isinstance(heldout, Mapping) else {},
        fields=status,
    )
