"""Detect inputs that changed since a run started, by size, time and content."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import xxhash

from clozeline.errors import StorageError
from clozeline.pipeline.execution.inputs import SourceFile
from clozeline.pipeline.execution.remote_file import RemoteFile
from clozeline.pipeline.execution.unit_record import records
from clozeline.pipeline.ingest.reader_options import other_files

OBSERVED: Final = ("mtime_ns", "version", "ends_xxh3", "others")
"""Facts of an input that say whether it changed; they are no part of the plan's digest."""

_END_BYTES: Final = 1 << 16
_CHUNK_BYTES: Final = 1 << 20


def file_version(path: Path | RemoteFile) -> dict[str, Any]:
    """Return the time of the last change of a file, or its version in its store."""
    return {"version": path.version} if isinstance(path, RemoteFile) else {"mtime_ns": path.stat().st_mtime_ns}


def observe_file(path: Path | RemoteFile) -> tuple[int, int | str]:
    """Return the present size of a file, and the time of its last change or its version in its store."""
    if isinstance(path, RemoteFile):
        return path.observe()
    facts = path.stat()
    return facts.st_size, facts.st_mtime_ns


def fingerprint_file(path: Path | RemoteFile, size: int) -> dict[str, Any]:
    """Return the time of the last change of a file, or its version, and the hash of its first and last 64 KiB."""
    try:
        first = range_hash(path, 0, _END_BYTES)
        last = first if size <= _END_BYTES else range_hash(path, size - _END_BYTES, size)
        return {**file_version(path), "ends_xxh3": first + last}
    except OSError as error:
        raise StorageError(f"{path}: cannot be read ({error.strerror or error})") from error


def fingerprint_other_files(reader: str, options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return size, time and ends of the further files of an input, by the option that names each."""
    facts = {}
    for option, path in other_files(reader, options).items():
        if not path.is_file():
            raise StorageError(f"{path}: no such file; `{option}` of the input names it")
        size = path.stat().st_size
        facts[option] = {"bytes": size, **fingerprint_file(path, size)}
    return facts


def other_name(source: str, option: str) -> str:
    """Return the name of a further file of an input in messages and records."""
    return f"{source} {option}"


def range_hash(path: Path | RemoteFile, start: int, end: int) -> str:
    """Return the XXH3-128 (hex) of a range of a file, as far as the file goes."""
    if isinstance(path, RemoteFile):
        return path.range_hash(start, end)
    digest = xxhash.xxh3_128()
    with path.open("rb") as file:
        file.seek(start)
        while chunk := file.read(min(_CHUNK_BYTES, end - start)):
            digest.update(chunk)
            start += len(chunk)
    return digest.hexdigest()


def range_name(source: str, start: int, end: int) -> str:
    """Return the name under which the record of a unit holds the hash of a range that it read."""
    return f"{source} {start}-{end}"


def find_input_changes(
    folder: Path,
    inputs: Sequence[Mapping[str, Any]],
    ranges: Iterable[tuple[str, int, int]],
    files: Sequence[SourceFile],
    *,
    verify: bool,
) -> list[str]:
    """Return the sources that are new, missing or have changed content.

    A file of the same size and time is taken as unchanged. Of one with another time (with `verify`, of all), as after a
    copy, the ends are compared with the plan, and all that units have read with their records in `folder`. `inputs` and
    `ranges` (source, start and end) are those of the plan.
    """
    before = {facts["source"]: facts for facts in inputs}
    changed = before.keys() ^ {file.source for file in files}
    compared: dict[str, Path | RemoteFile] = {}
    whole: list[tuple[str, int, int]] = []
    for name, path, facts in _iter_files_of_plan(before, files):
        if not path.is_file() or path.stat().st_size != facts["bytes"]:
            changed.add(name)
        elif verify or _may_differ(facts, path):
            compared[name] = path
            whole.append((name, 0, facts["bytes"]))
            if facts["ends_xxh3"] != fingerprint_file(path, facts["bytes"])["ends_xxh3"]:
                changed.add(name)
    known: dict[str, str] = {}
    if compared:
        units = [record for name in ("score", "main") for record in records(folder, name)]
        known = {name: digest for record in units for name, digest in record.inputs.items()}
    for source, start, end in {*ranges, *whole}:
        expected = known.get(range_name(source, start, end))
        if expected is not None and source in compared and expected != range_hash(compared[source], start, end):
            changed.add(source)
    return sorted(changed)


def _may_differ(facts: Mapping[str, Any], path: Path | RemoteFile) -> bool:
    """Return whether the time or version of a file differs from the plan."""
    return not file_version(path).items() <= facts.items()


def _iter_files_of_plan(
    before: Mapping[str, Mapping[str, Any]], files: Sequence[SourceFile]
) -> Iterator[tuple[str, Path | RemoteFile, Mapping[str, Any]]]:
    """Yield name, path and planned facts of the inputs in the plan, and of their further files under the same path."""
    for file in files:
        if (facts := before.get(file.source)) is None:
            continue
        yield file.source, file.path, facts
        for option, more in facts.get("others", {}).items():
            if file.entry.options.get(option) == facts["options"][option]:
                yield other_name(file.source, option), Path(file.entry.options[option]), more
