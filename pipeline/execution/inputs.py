"""Find the input files of a recipe, sorted by source name, and detect changes.

In folders, hidden files and outputs of Clozeline are skipped. Files of unknown type are errors:
checksums, logs and archives next to the data must not become documents.
"""

import glob
import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple

import xxhash

from clozeline.configuration.paths import as_url, local_path
from clozeline.errors import ClozelineError, ConfigurationError, StorageError, join_names
from clozeline.pipeline import all_stages
from clozeline.pipeline.execution.remote_file import RemoteFile, remote_files
from clozeline.pipeline.ingest.documents.document import escape_name
from clozeline.pipeline.ingest.formats.file_types import MARKER, reason_to_skip
from clozeline.pipeline.recipe import InputEntry
from clozeline.pipeline.shards.store import ObjectProperties

LINKS_OUT: Final = "links"
"""Name of the count of links in a folder that lead out of it; they are followed."""
_CHUNK_BYTES: Final = 1 << 20
_REMEDY: Final = "choose an output folder outside the input, or name the input files by a pattern"


class SourceFile(NamedTuple):
    """One input file, with its entry in the recipe and the folder in which it was found."""

    source: str
    path: Path | RemoteFile
    state: ObjectProperties
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


def source_files(entries: Sequence[InputEntry], output: Path | None = None) -> list[SourceFile]:
    """Return the input files, sorted by source name.

    Files in `output`, the folder of the run, are refused.
    """
    return list_inputs(entries, output)[0]


def list_inputs(
    entries: Sequence[InputEntry], output: Path | None = None
) -> tuple[list[SourceFile], Counter[str]]:
    """Return the files of `source_files`, and count those that are skipped by their names.

    The counts are by suffix, or `marker`; `LINKS_OUT` counts links, whose files are not skipped.
    """
    files: dict[str, SourceFile] = {}
    skipped = Counter[str]()
    mistakes: list[ClozelineError] = []
    broken: dict[str, list[Path]] = {}
    special: list[Path] = []
    run_folder = None if output is None else output.resolve()
    stages = tuple(f"{run_folder}/{stage}/" for stage in all_stages() if run_folder is not None)

    @cache
    def is_output_of_run(folder: Path) -> bool:
        # `resolve` would look at each folder above
        descriptor = os.open(folder, os.O_PATH)
        try:
            return f"{Path(f'/proc/self/fd/{descriptor}').readlink()}/".startswith(stages)
        finally:
            os.close(descriptor)

    def add(name: str, path: Path | RemoteFile, entry: InputEntry, folder: str | None) -> None:
        # names are printable: other bytes are written as %XX
        readable = escape_name(os.fsencode(name).decode("utf-8", "surrogateescape"))
        source = f"{entry.source}/{readable}"
        if source in files:
            raise ConfigurationError(
                f"input {path}: it is listed twice (as {source!r}); list each file once, or give "
                "different `source` labels"
            )
        if isinstance(path, RemoteFile):
            state = ObjectProperties(path.size, path.version)
        else:
            try:
                status = path.stat()
            except OSError as error:
                broken.setdefault(error.strerror or str(error), []).append(path)
                return
            if not stat.S_ISREG(status.st_mode):
                special.append(path)
            state = _state_of(status)
        files[source] = SourceFile(source, path, state, entry, folder)

    for entry in entries:
        for task in entry.read_tasks():
            add(task.name, task.find(output), entry, None)
        for pattern in map(_as_local_path, entry.paths):
            if (
                run_folder is not None
                and Path(pattern).is_dir()
                and run_folder.is_relative_to(Path(pattern).resolve())
            ):
                raise ConfigurationError(
                    f"input {pattern!r}: the output folder {run_folder} is inside it; {_REMEDY}"
                )

            try:
                found = _expand(pattern, entry, skipped)
            except ConfigurationError as error:
                mistakes.append(error)
                continue

            for name, path, folder in found:
                if isinstance(path, Path) and is_output_of_run(path.parent):
                    raise ConfigurationError(
                        f"input {pattern!r}: {path} is an output of this run; {_REMEDY}"
                    )
                add(name, path, entry, folder)

    for reason, paths in broken.items():
        named = f"input {join_names(paths)}: cannot be read ({reason})"
        mistakes.append(StorageError(f"{named}; repair or remove these files"))
    if special:
        mistakes.append(
            ConfigurationError(
                f"input {join_names(special)}: expected a file or folder, got a device, pipe or "
                "socket; remove it"
            )
        )
    if mistakes:  # all of them at once
        raise type(mistakes[0])("\n".join(map(str, mistakes)))
    return sorted(files.values(), key=lambda file: file.source.encode()), skipped


def _as_local_path(pattern: str) -> str:
    """Return a URL of the scheme `file` as a path; raise ConfigurationError for chained URLs."""
    if "::" in pattern and as_url(pattern.rpartition("::")[2]) is not None:
        raise ConfigurationError(
            f"input {pattern}: URLs with `::`, which chain file systems, are not supported; give "
            "the URL of the file itself: compressed files can be read directly"
        )
    return pattern if as_url(pattern) is not None else str(local_path(pattern))


def _expand(
    pattern: str, entry: InputEntry, skipped: Counter[str]
) -> list[tuple[str, Path | RemoteFile, str | None]]:
    """Return the files of a pattern that are read: name, file, and folder if it names one.

    Hidden files and outputs of Clozeline in a folder are skipped.
    """

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
        return [
            (name, file, None)
            for name, file in remote_files(url, entry)
            if file.url == url or is_read(name)
        ]

    is_folder = Path(pattern).is_dir()
    root = Path(pattern) if is_folder else _root(pattern)
    if is_folder and _is_output(root):
        raise ConfigurationError(
            f"input {pattern!r}: this folder is an output of Clozeline; name the files to read "
            "by a pattern"
        )
    walk = _walk(root, skipped) if is_folder else ()
    paths = [path for _, files in walk for path in files] if is_folder else _matches(pattern)
    prefix = os.path.join(root, "")  # noqa: PTH118 (`relative_to` takes ten times as long)
    named = {str(path).removeprefix(prefix): path for path in paths}
    if not Path(pattern).is_file():
        named = {name: path for name, path in named.items() if is_read(name)}
    if not named:
        raise ConfigurationError(
            f"input {pattern!r}: no file to read (hidden files, outputs of Clozeline, and files "
            "whose names say that they hold no text are skipped); name a file, another folder or a "
            "pattern"
        )
    folder = pattern if is_folder else None
    return [(name, path, folder) for name, path in named.items()]


def _walk(folder: Path, counts: Counter[str] | None = None) -> Iterator[tuple[Path, list[Path]]]:
    """Yield a folder and its subfolders with their files, without outputs of Clozeline.

    Hidden files and folders are skipped. Linked folders are followed, but not inside themselves.
    Links that leave the folder are added to `counts`.
    """
    inside = folder.resolve()
    waiting: list[Path | tuple[int, int]] = [folder]
    above = set[tuple[int, int]]()
    """folders that are walked, by device and inode: each waits again for its end"""
    marks = {"records", "manifest.json", "metrics.jsonl", *all_stages()}  # of our outputs

    while waiting:
        current = waiting.pop()
        if isinstance(current, tuple):
            above.remove(current)
            continue

        try:
            status = current.stat()
            with os.scandir(current) as scan:
                children = sorted(
                    (child for child in scan if child.name[0] != "."),
                    key=lambda each: os.fsencode(each.name),
                )
        except OSError as error:
            raise StorageError(
                f"input folder {current}: cannot be read ({error.strerror or error})"
            ) from error

        identity = status.st_dev, status.st_ino
        names = {child.name for child in children}
        if identity in above or (above and not names.isdisjoint(marks) and _is_output(current)):
            continue
        above.add(identity)
        if counts is not None:
            targets = [Path(each).resolve() for each in children if each.is_symlink()]
            counts[LINKS_OUT] += sum(not each.is_relative_to(inside) for each in targets)
        folders = [current / child.name for child in reversed(children) if child.is_dir()]
        waiting += [identity, *folders]
        yield current, [current / child.name for child in children if not child.is_dir()]


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
    files = [Path(name) for name in names if not os.path.isdir(name)]  # noqa: PTH112 (many files)
    if "**" in Path(pattern).parts and root.is_dir():
        folders = {folder for folder, _ in _walk(root)}
        files = [path for path in files if path.parent in folders]

    if not files:
        brackets = [
            f"; the folder {part} is written {glob.escape(part)} in a pattern"
            for part in Path(pattern).parts
            if "[" in part and root.joinpath(part).is_dir()
        ]
        raise ConfigurationError(
            f"input {pattern!r}: no such file, and no file matches it as a pattern"
            + "".join(brackets[:1])
        )
    return files


def _root(pattern: str) -> Path:
    """Return the folder before the first wildcard, or the folder of the file."""
    return Path(*takewhile(lambda part: not glob.has_magic(part), Path(pattern).parts[:-1]))


def observe_file(path: Path | RemoteFile) -> ObjectProperties:
    """Return the current state of a file; for a file in a store, this takes a request."""
    return path.observe() if isinstance(path, RemoteFile) else _state_of(path.stat())


def _state_of(status: os.stat_result) -> ObjectProperties:
    return ObjectProperties(status.st_size, str(status.st_mtime_ns))


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
