"""The state that a start leaves, however it ended: a status that is true, and no process."""

import json
import signal

from clozeline.errors import STOPPED, WATCHDOG, CheckpointError
from clozeline.run_status import read_status
from clozeline.train.checkpoint.stored_checkpoint import StoredCheckpoint
from clozeline.train.logs.json_lines import read_lines
from tests.distributed import run_ranks

SILENT = (-signal.SIGKILL, WATCHDOG)
"""Ends of a process that can no longer write."""


def run_checked(size, function, *arguments, folder):
    """Call `function(*arguments)` on fresh ranks, and check what they leave in `folder / "run"`."""
    before = written(folder / "run")
    finished = run_ranks(size, function, *arguments, folder=folder)
    assert finished.left == [], finished.errors
    check_status(folder / "run", finished.codes[0], before)
    return finished


def written(run):
    """Contents of the files that the first rank writes while it trains."""
    paths = [run / name for name in ("status.json", "metrics.jsonl")]
    return [path.read_bytes() if path.exists() else None for path in paths]


def check_status(run, code, before):
    """Compare status.json with how the first rank ended, and with the records and the checkpoints
    that are there.

    Args:
        run: the run directory.
        code: exit code of the first rank; negative: the signal that killed it.
        before: what was `written` before this start; one that changed nothing was refused, or had
            nothing to do.
    """
    whole = whole_checkpoints(run)
    status = read_status(run)
    if written(run) == before:
        assert code in (0, 64, 65, 74) or code in SILENT, code
        return

    said = json.loads((run / "status.json").read_text(encoding="utf-8"))

    if code in SILENT and status.state == "running":
        assert status.ended, "nothing says that it runs"
    elif code not in SILENT:
        assert (status.state, said["exit_code"]) == (
            {0: "done", STOPPED: "stopped"}.get(code, "failed"),
            code,
        )
        assert ("error" in said) == (status.state == "failed")

    named = None if status.checkpoint is None else int(status.checkpoint.removeprefix("step-"))
    records = [record["step"] for record in read_lines(run / "metrics.jsonl")]
    last = records[-1] if records else 0

    if code in SILENT:  # between a save or a record and what status.json says of it
        assert named is None or named in whole
        assert (named or 0) <= status.step <= last, (
            "at most a second before the record, and not before the save"
        )
    else:
        assert named == max(whole, default=None)
        assert status.step == last

    if code in (0, STOPPED):
        assert status.step == named, "the state is saved"


def whole_checkpoints(run):
    """Steps of the checkpoints that are whole, by hash."""
    found = []

    for path in sorted((run / "checkpoints").glob("step-*")):
        try:
            StoredCheckpoint.open(path)
            found.append(int(path.name.removeprefix("step-")))
        except CheckpointError:
            continue

    return found
