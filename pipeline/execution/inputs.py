"""Find the input files of a recipe, sorted by source name, and detect changes.

In folders, hidden files and outputs of Clozeline are skipped. Files of unknown type are errors:
checksums, logs and archives next to the data must not become documents.
"""

import glob
import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple

import xxhash

from clozeline.errors import ClozelineError, ConfigurationError, StorageError, join_names
from clozeline.pipeline import all_stages
from clozeline.pipeline.execution.block_tasks import list_block_tasks
from clozeline.pipeline.execution.remote_file import RemoteFile, remote_files
from clozeline.pipeline.ingest.documents.document import escape_name
from clozeline.pipeline.ingest.formats.file_types import MARKER, reason_to_skip
from clozeline.pipeline.recipe import InputEntry
from clozeline.pipeline.shards.store import as_url, local_path

_CHUNK_BYTES: Final = 1 << 20
_REMEDY: Final = "choose an output folder outside the input, or name the input files by a pattern"

_MOUNT_TABLE: Final = Path("/proc/self/mountinfo")


@dataclass(frozen=True, slots=True)
class FileState:
    """State of a file; another state means that the file has changed."""

    size: int
    version: int | str
    """time of the last change in ns, or the version that the store reports"""
    inode: int = 0
    """0 if the file system does not keep inode numbers"""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One input file, with its entry in the recipe and the folder in which it was found."""

    source: str
    path: Path | RemoteFile
    state: FileState
    """state when the inputs were listed"""
    entry: InputEntry
    folder: str | None = None

    @property
    def bytes(self) -> int:
        return self.state.size

    @property
    def local_path(self) -> Path:
        """The path of a local file; ConfigurationError for a file in a store."""
        if isinstance(self.path, RemoteFile):
            raise ConfigurationError(
                f"input {self.path}: only documents can be read from a store; download this file, "
                "and give its local path"
            )
        return self.path


class Inputs(NamedTuple):
    """Files of a recipe's inputs."""

    files: list[SourceFile]
    """sorted by source name"""
    skipped: Counter[str]
    """number of files and folders that are skipped by their names, by suffix or `marker`"""


def source_files(entries: Sequence[InputEntry], output: Path | None = None) -> list[SourceFile]:
    """Return the input files, sorted by source name.

    Files in `output`, the folder of the run, are refused.
    """
    return list_inputs(entries, output).files


def list_inputs(entries: Sequence[InputEntry], output: Path | None = None) -> Inputs:
    """Return the input files, and count the files that are skipped by their names.

    See `source_files`.
    """
    files: dict[str, _Found] = {}
    skipped = Counter[str]()
    mistakes: list[ClozelineError] = []
    run_folder = None if output is None else output.resolve()

    @cache
    def is_output_of_run(folder: Path) -> bool:
        if run_folder is None:
            return False
        real = folder.resolve()
        return any(real.is_relative_to(run_folder / stage) for stage in all_stages())

    for entry in entries:
        for task in list_block_tasks(entry):
            source = f"{entry.source}/{task.name}"
            files[source] = _Found(source, task.find(output), entry)
        for pattern in map(_as_local_path, _patterns(entry)):
            if (
                run_folder is not None
                and Path(pattern).is_dir()
                and run_folder.is_relative_to(Path(pattern).resolve())
            ):
                raise ConfigurationError(
                    f"input {pattern!r}: the output folder {run_folder} is inside it; {_REMEDY}"
                )

            try:
                expanded = _expand(pattern, entry, skipped)
            except _NoMatchError as error:
                mistakes.append(error)
                continue

            for file in expanded:
                if isinstance(file.path, Path) and is_output_of_run(file.path.parent):
                    raise ConfigurationError(
                        f"input {pattern!r}: {file.path} is an output of this run; {_REMEDY}"
                    )
                if file.source in files:
                    raise ConfigurationError(
                        f"input {pattern!r}: {file.path} is listed twice (as {file.source!r}); "
                        "list each file once, or give different `source` labels"
                    )
                files[file.source] = file

    mistakes += _find_unreadable(
        [file.path for file in files.values() if isinstance(file.path, Path)]
    )
    if mistakes:  # all of them at once
        raise type(mistakes[0])("\n".join(map(str, mistakes)))
    sources = [
        SourceFile(each.source, each.path, _list_state(each.path), each.entry, each.folder)
        for each in files.values()
    ]
    return Inputs(sorted(sources, key=lambda file: file.source.encode()), skipped)


class _NoMatchError(ConfigurationError):
    """No file has this name or matches this pattern."""


class _Found(NamedTuple):
    """A file that was found but not inspected yet."""

    source: str
    path: Path | RemoteFile
    entry: InputEntry
    folder: str | None = None


def _list_state(path: Path | RemoteFile) -> FileState:
    """Return the state of a local file now, or the listed state of a file in a store."""
    return (
        FileState(path.size, path.version) if isinstance(path, RemoteFile) else observe_file(path)
    )


def _patterns(entry: InputEntry) -> Sequence[str]:
    return [entry.path] if isinstance(entry.path, str) else entry.path


def _as_local_path(pattern: str) -> str:
    """Return a URL of the scheme `file` as a path; raise ConfigurationError for chained URLs."""
    if "::" in pattern and as_url(pattern.rpartition("::")[2]) is not None:
        raise ConfigurationError(
            f"input {pattern}: URLs with `::`, which chain file systems, are not supported; give "
            "the URL of the file itself: compressed files can be read directly"
        )
    return pattern if as_url(pattern) is not None else str(local_path(pattern))


def _expand(pattern: str, entry: InputEntry, skipped: Counter[str]) -> list[_Found]:
    def is_read(name: str) -> bool:
        """Return whether a file is read, judged by its name.

        If a reader is set, only markers are skipped.
        """
        kind = reason_to_skip(name)
        if not kind or (entry.reader is not None and kind != MARKER):
            return True
        skipped[kind] += 1
        return False

    if (url := as_url(pattern)) is not None:
        remote = [
            (name, file)
            for name, file in remote_files(url, entry)
            if file.url == url or is_read(name)
        ]
        return [
            _Found(_source_name(entry, os.fsencode(name)), file, entry) for name, file in remote
        ]

    if Path(pattern).is_dir():
        root = Path(pattern)
        paths = _files_of(Path(pattern))
        folder = pattern
    else:
        root = _root(pattern)
        paths = _matches(pattern)
        folder = None

    if not Path(pattern).is_file():
        paths = [path for path in paths if is_read(path.relative_to(root).as_posix())]
    if not paths:
        raise ConfigurationError(
            f"input {pattern!r}: no file to read (hidden files, outputs of Clozeline, and files "
            "whose names say that they hold no text are skipped); name a file, another folder or a "
            "pattern"
        )

    names = [_source_name(entry, os.fsencode(path.relative_to(root).as_posix())) for path in paths]
    return [_Found(name, path, entry, folder) for name, path in zip(names, paths, strict=True)]


def _find_unreadable(paths: Sequence[Path]) -> Iterator[ClozelineError]:
    """Yield errors that name unreadable and special files, such as dangling links and pipes."""
    broken: dict[str, list[Path]] = {}
    special = []

    for path in paths:
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                special.append(path)
        except OSError as error:
            broken.setdefault(error.strerror or str(error), []).append(path)

    for reason, some in broken.items():
        yield StorageError(
            f"input {join_names(some)}: cannot be read ({reason}); repair or remove these files"
        )

    if special:
        yield ConfigurationError(
            f"input {join_names(special)}: expected a file or folder, got a device, pipe or "
            "socket; remove it"
        )


def _source_name(entry: InputEntry, path: bytes) -> str:
    """Return the source name of a file: unique and printable; other bytes are written as %XX."""
    return f"{entry.source}/{escape_name(path.decode('utf-8', 'surrogateescape'))}"


def _files_of(folder: Path) -> list[Path]:
    """Return the files of an input folder, without hidden files and outputs of Clozeline."""
    if _is_output(folder):
        raise ConfigurationError(
            f"input {str(folder)!r}: this folder is an output of Clozeline; name the files to read "
            "by a pattern"
        )
    return [path for _, files in _walk(folder) for path in files]


def _walk(folder: Path, above: tuple[Path, ...] = ()) -> Iterator[tuple[Path, list[Path]]]:
    """Yield a folder and its subfolders with their files, without outputs of Clozeline.

    Hidden files and folders are skipped. Linked folders are followed, but not inside themselves.
    """
    if (real := folder.resolve()) in above or (above and _is_output(folder)):
        return

    try:
        with os.scandir(folder) as scan:
            children = sorted(
                (child for child in scan if child.name[0] != "."),
                key=lambda each: os.fsencode(each.name),
            )
    except OSError as error:
        raise StorageError(
            f"input folder {folder}: cannot be read ({error.strerror or error})"
        ) from error

    yield folder, [folder / child.name for child in children if not child.is_dir()]
    for child in children:
        if child.is_dir():
            yield from _walk(folder / child.name, (*above, real))


def _is_output(folder: Path) -> bool:
    """Return whether Clozeline wrote a folder: a run, a stage, a shard set, or a training run."""
    stages = [folder, *(folder / name for name in all_stages())]
    if any((stage / "records").exists() and (stage / "config.yaml").exists() for stage in stages):
        return True
    if (folder / "manifest.json").exists():
        return any(folder.glob("*shard-*"))
    return (folder / "metrics.jsonl").exists() and (folder / "checkpoints").exists()


def _matches(pattern: str) -> list[Path]:
    """Return the files of a path or a pattern; `**` does not descend into outputs of Clozeline."""
    if Path(pattern).exists():
        return [Path(pattern)]
    root = _root(pattern)
    names = glob.glob(pattern, recursive=True)  # noqa: PTH207 (patterns that Path.glob refuses)
    files = [path for path in map(Path, names) if not path.is_dir()]
    if "**" in Path(pattern).parts and root.is_dir():
        folders = {folder for folder, _ in _walk(root)}
        files = [path for path in files if path.parent in folders]

    if not files:
        brackets = next(
            (part for part in Path(pattern).parts if "[" in part and root.joinpath(part).is_dir()),
            None,
        )
        hint = (
            f"; the folder {brackets} is written {glob.escape(brackets)} in a pattern"
            if brackets
            else ""
        )
        raise _NoMatchError(
            f"input {pattern!r}: no such file, and no file matches it as a pattern{hint}"
        )

    return files


def _root(pattern: str) -> Path:
    """Return the folder before the first wildcard, or the folder of the file."""
    return Path(*takewhile(lambda part: not glob.has_magic(part), Path(pattern).parts[:-1]))


def observe_file(path: Path | RemoteFile) -> FileState:
    """Return the current state of a file; for a file in a store, this takes a request."""
    if isinstance(path, RemoteFile):
        return FileState(*path.observe())
    status = path.stat()
    inode = status.st_ino if _keeps_inodes(status.st_dev) else 0
    return FileState(status.st_size, status.st_mtime_ns, inode)


@cache
def _keeps_inodes(device: int) -> bool:
    """Return whether a device keeps inode numbers: file systems in user space make new ones."""
    if not _MOUNT_TABLE.exists():
        return True
    name = f"{os.major(device)}:{os.minor(device)}"
    mounts = [
        line.partition(" - ")
        for line in _MOUNT_TABLE.read_text(encoding="utf-8", errors="replace").splitlines()
    ]
    return not any(
        before.split()[2] == name and after.startswith("fuse") for before, _, after in mounts
    )


def range_name(source: str, start: int, end: int) -> str:
    """Return the name that the record of a unit gives to a range that the unit read."""
    return f"{source} {start}-{end}"


def range_hash(path: Path, start: int, end: int) -> str:
    """Return the XXH3-128 (hex) of a range of a file, up to the end of the file."""
    digest = xxhash.xxh3_128()
    with path.open("rb") as file:
        file.seek(start)
        while chunk := file.read(min(_CHUNK_BYTES, end - start)):
            digest.update(chunk)
            start += len(chunk)
    return digest.hexdigest()
