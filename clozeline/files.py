"""Write files atomically, hash them, and remove temporary files."""

import errno
import json
import os
import platform
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

import xxhash

from clozeline.configuration.overrides import dump_yaml
from clozeline.configuration.redaction import redact
from clozeline.errors import ConfigurationError, IntegrityError, StorageError
from clozeline.file_kinds import special_kind
from clozeline.repair import cannot_write

_FOREIGN_FILE_AGE_S: Final = 3600
"""Age in seconds after which a temporary file of another host is removed."""
_START_TOLERANCE_S: Final = 2.0
"""Two start times of a process may differ by so many seconds: the boot time is known to a second,
and the clock may be slowed down or set between two readings."""
# Two containers may have the name of their machine, and each counts its processes from 1.
HOST: Final = f"{platform.node()} {Path('/proc/self/ns/pid').resolve().name}"
_HOST: Final = xxhash.xxh32_hexdigest(HOST.encode())
_TEMPORARY: Final = re.compile(r"\.([0-9a-f]{8})-(\d+)-[0-9a-f]{8}\.tmp\Z")
"""End of the names that `temporary_path` makes: host, process, a random number."""
PAGE_MARK: Final = "<meta name=generator content=Clozeline>"
"""Tag in the head of every page that Clozeline writes: the record that the file is ours."""
_MARKED_BYTES: Final = 4096
_SHOWN_NAMES: Final = 4
LOCK: Final = ".lock"
"""File in an output that the system locks while a process writes there."""
HOLDER: Final = ".holder"
"""File in an output that exists while a process writes there."""
LOCK_FILES: Final = frozenset([LOCK, HOLDER])


def folders_above(path: Path) -> Iterable[Path]:
    """Return all folders above a path: first as it is given, then with symbolic links resolved."""
    return dict.fromkeys((*path.absolute().parents, *path.resolve().parents))


def file_hash(path: Path) -> str:
    """Return the XXH3-128 (hex) of a file."""
    digest = xxhash.xxh3_128()
    with open_regular(path) as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def temporary_path(path: Path) -> Path:
    """Return a path next to another one, whose name says which process writes it."""
    return path.with_name(f"{path.name}.{_HOST}-{os.getpid()}-{secrets.token_hex(4)}.tmp")


def is_temporary(path: Path) -> bool:
    """Return whether `temporary_path` made the name of a path."""
    return _TEMPORARY.search(path.name) is not None


def owner_of(temporary: Path) -> int | None:
    """Return the process that writes a temporary path, 0 if it has ended, None if nobody knows.

    That is so for names which `temporary_path` did not make, and for an hour for those of other
    hosts.

    Raises:
        FileNotFoundError: there is no such path.
    """
    import psutil

    made = _TEMPORARY.search(temporary.name)
    if made is None:
        return None
    if made[1] != _HOST:
        old = time.time() - temporary.lstat().st_mtime > _FOREIGN_FILE_AGE_S
        return 0 if old else None
    process = int(made[2])
    return process if psutil.pid_exists(process) else 0


@contextmanager
def replacing(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Write a file atomically: yield a temporary path in the same folder, then rename it.

    `durable` forces content and name to the disk. That takes about 6 ms per file instead of 0.3, so
    it is off for files that may be lost in a crash of the machine: cache entries, and the status of
    a running run. A system error names `path`.
    """
    temporary = temporary_path(path)

    try:
        yield temporary
        if durable:
            sync(temporary)
        temporary.replace(path)
        if durable:
            sync(path.parent)
    except OSError as error:
        # the temporary file is gone; its name is the second one if it was to become a copy
        if error.errno and (
            error.filename is None or str(temporary) in (str(error.filename), str(error.filename2))
        ):
            error.filename, error.filename2 = str(path), None
        raise
    finally:
        # already renamed, or never created because of an earlier error, which is the one to report
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def publish(path: Path) -> Iterator[Path]:
    """Write a file by `replacing`, and create its folder; StorageError if it cannot be written."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            yield temporary


@contextmanager
def writing(output: Path, *temporary: Path) -> Iterator[None]:
    """Raise StorageError for a system error of a file or folder that is written.

    It is one if it names no file, as on a full disk, one in `output` or in a temporary folder, or a
    folder above. All others are of files that were read.
    """
    try:
        yield
    except OSError as error:
        # a copy and a rename name their source first
        names = [name for name in (error.filename2, error.filename) if name] or [output]
        for failed in map(Path, map(os.fsdecode, names)):
            if any(
                path.is_relative_to(failed) or failed.is_relative_to(path)
                for path in (output, *temporary)
            ):
                named = failed if failed.is_relative_to(output) else output
                raise StorageError(cannot_write(named, error)) from error
        raise


def open_regular(path: Path, mode: str = "rb", flags: int = 0) -> IO[Any]:
    """Open a file; OSError for what only has its name.

    Opening a pipe would wait for another program, and reading a device may never end.
    """

    def open_file(name: str, usual: int) -> int:
        if (kind := special_kind(name)) is not None:
            raise FileExistsError(errno.EEXIST, f"expected a file, got {kind}", name)
        return os.open(name, usual | flags | os.O_NONBLOCK, 0o666)

    return open(path, mode, opener=open_file)


def open_unlinked(path: Path, mode: str) -> IO[Any]:
    """Open a file for writing; OSError if its name is a symbolic link.

    In a folder that others may write to, such a link could make us overwrite another file.
    """
    return open_regular(path, mode, os.O_NOFOLLOW)


def read_bytes(path: Path) -> bytes:
    """Return the content of a regular file."""
    with open_regular(path) as file:
        content: bytes = file.read()
    return content


def read_text(path: Path) -> str:
    """Return the text of a file in UTF-8, without a byte order mark.

    Raises:
        ValueError: it is in another encoding.
    """
    return read_bytes(path).decode("utf-8-sig")


def sync(path: Path) -> None:
    """Force the content of a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def process_start(process: int) -> float:
    """Return the start time of a process in seconds since boot, independent of the clock."""
    import psutil  # imported here, because most callers of this module do not need it

    return float(psutil.Process(process).create_time() - psutil.boot_time())


def still_runs(process: int, start: float) -> bool:
    """Return whether the process that started at `start` still runs.

    A later process may have the same id.
    """
    import psutil

    try:
        return abs(process_start(process) - start) < _START_TOLERANCE_S
    except psutil.NoSuchProcess:
        return False


def identify_process() -> dict[str, Any]:
    """Return what tells this process from all others: host with its namespace, id, start."""
    return {"host": HOST, "pid": os.getpid(), "start": process_start(os.getpid())}


def has_ended(process: Mapping[str, Any]) -> bool:
    """Return whether a process of `identify_process` has ended; False if nobody here can know."""
    try:
        return process["host"] == HOST and not still_runs(
            int(process["pid"]), float(process["start"])
        )
    except (KeyError, ValueError, TypeError, OverflowError):
        return False


def sweep(folder: Path) -> None:
    """Remove temporary files of killed processes, see `owner_of`."""
    # a folder may hold a million files: `rglob` takes twice as long
    names = ((place, name) for place, _, files in os.walk(folder) for name in files)
    for path in [Path(place, name) for place, name in names if name.endswith(".tmp")]:
        with suppress(FileNotFoundError):  # removed meanwhile
            if owner_of(path) == 0:
                path.unlink()


def is_replaceable(path: Path, mark: str = PAGE_MARK) -> bool:
    """Return whether a page may be written to a path: nothing is there, or a page of ours.

    A link, a folder, and a file without the mark belong to somebody else.
    """
    if path.is_symlink() or not path.is_file():
        return not os.path.lexists(path)
    with suppress(OSError), path.open("rb") as file:
        return mark.encode() in file.read(_MARKED_BYTES)
    return False


def choose_page_path(path: Path, mark: str = PAGE_MARK) -> Path:
    """Return where a run writes its page: the path, or `clozeline-NAME` next to somebody else's.

    The caller prints the path that it gets.
    """
    while not is_replaceable(path, mark):
        path = path.with_name(f"clozeline-{path.name}")
    return path


def publish_text(path: Path, text: str, *, is_private: bool = False) -> None:
    """Publish a string as UTF-8; only its owner may read a private one."""
    with publish(path) as temporary:
        if is_private:
            temporary.touch(0o600)
        temporary.write_text(text, encoding="utf-8")


def publish_yaml(path: Path, data: object) -> None:
    """Publish data as YAML; only its owner may read a file with secrets."""
    publish_text(path, dump_yaml(data), is_private=redact(data) != data)


def publish_json(path: Path, data: object) -> None:
    """Publish data as JSON with sorted keys."""
    publish_text(path, json.dumps(data, indent=1, sort_keys=True) + "\n")


def parse_json(text: str | bytes) -> Any:
    """Return the data of a JSON text; ValueError if it is malformed or nested too deeply.

    Bytes are UTF-8, also of halves of surrogate pairs.
    """
    try:
        return json.loads(text if isinstance(text, str) else text.decode("utf-8", "surrogatepass"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the object in a JSON file; None if the file is missing or holds something else."""
    try:
        data = parse_json(read_text(path))
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def read_object(path: Path) -> dict[str, Any]:
    """Return the keys of a JSON file, without any if it is missing; IntegrityError if damaged."""
    if not path.is_file():
        return {}
    try:
        content = parse_json(read_bytes(path))
    except ValueError as error:
        raise IntegrityError(
            f"{path.resolve()}: not valid JSON in UTF-8 ({error}); download it again"
        ) from error
    if not isinstance(content, dict):
        got = type(content).__name__
        raise IntegrityError(
            f"{path.resolve()}: expected keys and values, got {got}; download it again"
        )
    return content


def require_empty(folder: Path) -> None:
    """Refuse a path that is a file, or a folder with files, which are somebody else's.

    Only the files of a lock and the temporary files of ended processes may be there.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigurationError(f"output={folder}: expected a new or empty folder, got a file")
    paths = [*folder.iterdir()] if folder.exists() else []
    names = sorted(path.name for path in paths if owner_of(path) is None)
    if not LOCK_FILES.issuperset(names):
        raise ConfigurationError(
            f"output={folder}: expected a new or empty folder, it holds files already: "
            f"{', '.join(names[:_SHOWN_NAMES])}; choose a new folder"
        )
