"""Read untrusted files: regular files of bounded size with bounded lists."""

import os
import stat
from pathlib import Path

from clozeline.pipeline.shards.errors import ManifestError
from clozeline.repair import repair_of


def read_regular(path: Path, limit: int) -> bytes:
    """Read a regular file of at most `limit` bytes: a device may have no end, a pipe may never give a byte."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # opening a pipe would wait for its writer
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            kinds = {stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}
            kind = kinds.get(stat.S_IFMT(status.st_mode), "device")
            raise ManifestError(f"{path}: expected a regular file, got a {kind}; {repair_of(path)}")
        if status.st_size > limit:
            raise ManifestError(f"{path}: {status.st_size} bytes, at most {limit} are read; {repair_of(path)}")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(status.st_size + 1)
    finally:
        os.close(descriptor)
    if len(content) > status.st_size:
        raise ManifestError(f"{path}: it grew while it was read; {repair_of(path)}")
    return content


def check_entries(where: Path | str, raw: bytes, limit: int) -> None:
    """Check that JSON has at most `limit` entries in its lists and mappings, before any of them takes memory."""
    if (entries := raw.count(b",")) > limit:  # commas in strings count too
        raise ManifestError(f"{where}: about {entries} entries, at most {limit} are read; {repair_of(where)}")
