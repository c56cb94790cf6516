"""Folders that take seconds to build: once in a run of the tests, whichever worker needs them
first."""

import fcntl
import os
import shutil


def built_once(factory, name, build):
    """Return a folder that one worker builds and every worker of pytest-xdist reads.

    Tests change copies of it.
    """
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    folder = base / name
    done = base / f"{name}.done"

    with (base / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)  # of a worker that failed
            build(folder)
            done.touch()

    return folder
