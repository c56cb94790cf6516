"""Files that are whole or absent: one atomic write, one lock, one hash, one sweep."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import psutil
import xxhash

from pipeline.errors import StorageError

__all__ = ["file_hash", "one_at_a_time", "publish", "publish_json", "read_json", "sweep"]

_LEASE_S: Final = 3600
_HOST: Final = xxhash.xxh32_hexdigest(platform.node().encode())


def file_hash(path: Path) -> str:
    """XXH3-128 (hex) of a file."""
    digest = xxhash.xxh3_128()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def publish(path: Path) -> Iterator[Path]:
    """Write a file whole or not at all: yields a temporary path beside it, then fsync and rename.

    Raises:
        StorageError: the folder cannot be written, or the disk is full; the temporary file is removed.
    """
    temporary = path.with_name(f"{path.name}.{_HOST}-{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):  # not there any more, or its folder is none: the first error is the one to tell
            temporary.unlink()


def sweep(folder: Path) -> None:
    """Remove temporary files that killed processes left: of this host's dead processes, or older than an hour."""
    for path in folder.rglob("*.tmp"):
        host, _, rest = path.name.split(".")[-2].partition("-")
        process = rest.split("-")[0]
        if host == _HOST and process.isdigit():
            dead = not psutil.pid_exists(int(process))
        else:
            dead = time.time() - _changed(path) > _LEASE_S
        if dead:
            path.unlink(missing_ok=True)


def _changed(path: Path) -> float:
    """When a file was last written; now, where somebody has just removed it."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return time.time()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def publish_json(path: Path, data: Any) -> None:
    """Publish plain data as JSON with sorted keys."""
    with publish(path) as temporary:
        temporary.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file, or None where there is none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


@contextmanager
def one_at_a_time(folder: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold `folder/.lock`; the system releases it whatever ends the process.

    Args:
        folder: output folder, made if need be.
        waiting: called once if another process holds the lock.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ".lock").open("w")
    except OSError as error:
        raise StorageError(f"{folder}: cannot be written: {error.strerror or error}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
