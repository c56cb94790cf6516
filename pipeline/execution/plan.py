"""The plan: input files cut into units or packed into them, and the number of shards, fixed before any task starts.

Everything later (names, seeds, accounting) depends on units, never on tasks. The plan holds no absolute path, and its
digest covers no time, so moving or copying the inputs keeps every uid.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Final

from clozeline.configuration.config import to_plain
from clozeline.errors import ConfigurationError, IntegrityError, StorageError
from clozeline.files import parse_json, publish_json
from clozeline.pipeline.execution.inputs import (
    SourceFile,
    check_kinds,
    file_version,
    fingerprint_file,
    fingerprint_other_files,
    other_name,
    range_hash,
    range_name,
    source_files,
)
from clozeline.pipeline.execution.remote_file import RemoteFile
from clozeline.pipeline.execution.unit_record import records
from clozeline.pipeline.ingest.reader_options import check_options
from clozeline.pipeline.ingest.readers import detect, is_guess
from clozeline.pipeline.recipe import InputEntry, Recipe
from clozeline.sealed_json import seal, unseal

OBSERVED: Final = ("mtime_ns", "version", "ends_xxh3", "others")
"""Facts of an input that say whether it changed; they are no part of the plan's digest."""

PLAN_FORMAT: Final = 1
"""Newest format of `plan.json`."""
# Keys of an input that say where its files are, not how they are read.
_OUTSIDE: Final = ("path", "source", "unknown", "store")
# Room for no further file, not even an empty one.
_NONE: Final = -1
_STORED: Final = ("unit", "source", "source_group", "reader", "start", "end")
LEAST_BYTES: Final = 1 << 28
"""Default bytes of a unit and of a shard of a small corpus."""
MOST_UNITS: Final = 8_192
"""Units and shards of a large one, so that their product, the pieces of an exchange, stays below 7 * 10^7."""
MOST_PIECES: Final = 10**10
"""Pieces of an exchange: each takes 24 bytes of an index and some 50 microseconds to write and read."""
PLAN_STAGE: Final = "clean"
"""The stage that reads the inputs, so its first start freezes the plan."""


@dataclass(frozen=True, slots=True)
class PlannedRange:
    """A range of one input file, and its unit. `path` is where it is now; outputs name it by `source` alone."""

    unit: int
    source: str
    source_group: str
    reader: str
    start: int
    end: int
    entry: InputEntry | None = None
    path: Path | RemoteFile | None = None


@dataclass(frozen=True)
class Plan:
    """Ranges in order of source name and offset, and the number of shards of every later set.

    A unit is one range, or several consecutive small files.
    """

    ranges: tuple[PlannedRange, ...]
    shards: int
    inputs: tuple[dict[str, Any], ...]

    @property
    def bytes(self) -> int:
        """Bytes of all inputs, as they are stored."""
        return sum(facts["bytes"] for facts in self.inputs)

    @cached_property
    def units(self) -> tuple[tuple[PlannedRange, ...], ...]:
        """The ranges of each unit."""
        return tuple(tuple(group) for _, group in groupby(self.ranges, lambda planned: planned.unit))

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of the plan, without what only says whether an input has changed."""
        facts = [{name: value for name, value in each.items() if name not in OBSERVED} for each in self.inputs]
        text = json.dumps({**self.as_json(), "inputs": facts}, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def as_json(self) -> dict[str, Any]:
        """Return the content of `clean/plan.json`. Its key `units` lists ranges; ranges of a unit share an index."""
        units = [{name: getattr(planned, name) for name in _STORED} for planned in self.ranges]
        return {"format": PLAN_FORMAT, "shards": self.shards, "inputs": list(self.inputs), "units": units}


def _make_plan(recipe: Recipe, files: Sequence[SourceFile], saved: Plan | None) -> Plan:
    """Cut the files; those that the saved plan holds with the same options are not opened again."""
    known = {} if saved is None else {facts["source"]: facts for facts in saved.inputs}
    options_of = {id(file.entry): _options(file.entry) for file in {id(file.entry): file for file in files}.values()}
    inputs = [_facts(file, options_of[id(file.entry)], known.get(file.source)) for file in files]
    _check_readers(recipe, files, inputs, known.keys())
    total, sizes = sum(facts["bytes"] for facts in inputs), recipe.plan_options
    default = max(LEAST_BYTES, -(-total // MOST_UNITS))
    unit_bytes, shard_bytes = sizes.unit_bytes or default, sizes.shard_bytes or default
    pieces: list[list[PlannedRange]] = []
    for file, facts in zip(files, inputs, strict=True):
        count = max(1, -(-file.bytes // unit_bytes)) if facts["splittable"] else 1
        bounds = [file.bytes * index // count for index in range(count + 1)]
        planned = PlannedRange(0, file.source, file.entry.source, facts["reader"], 0, 0, file.entry, file.path)
        pieces.append([replace(planned, start=start, end=end) for start, end in pairwise(bounds)])
    plan = Plan(_number_units(pieces, unit_bytes), max(1, -(-total // shard_bytes)), tuple(inputs))
    if len(plan.units) * plan.shards > MOST_PIECES:
        raise ConfigurationError(
            f"plan: {len(plan.units):,} units and {plan.shards:,} shards make {len(plan.units) * plan.shards:,} pieces "
            f"between two passes, expected at most {MOST_PIECES:,}: leave plan.unit_bytes and plan.shard_bytes out, or "
            f"set both to {default:,}"
        )
    return plan


def _check_readers(
    recipe: Recipe, files: Sequence[SourceFile], inputs: Sequence[dict[str, Any]], known: Collection[str]
) -> None:
    """Refuse files of unknown type in folders, and options that no reader of an entry has."""
    readers = {facts["source"]: facts["reader"] for facts in inputs if facts["source"] not in known}
    if recipe.has(PLAN_STAGE):  # files of a task have readers of their own
        doubtful = [file for file in files if file.folder is not None and file.bytes > 0 and file.entry.reader is None]
        doubtful = [file for file in doubtful if file.source in readers]
        check_kinds([file for file in doubtful if is_guess(file.path, readers[file.source])])
    readers_of: dict[int, set[str]] = {}
    for file, facts in zip(files, inputs, strict=True):
        readers_of.setdefault(id(file.entry), set()).add(facts["reader"])
    for entry in recipe.input:
        try:
            check_options(entry.options, readers_of[id(entry)])
        except ConfigurationError as error:
            raise ConfigurationError(f"input {entry.path!r}: {error}") from error


def _number_units(pieces: Sequence[Sequence[PlannedRange]], shared: int) -> tuple[PlannedRange, ...]:
    """Number the units: consecutive files that are not cut share one of `shared` bytes or less."""
    planned_ranges: list[PlannedRange] = []
    unit, room = -1, _NONE
    for ranges in pieces:
        whole = len(ranges) == 1
        for planned in ranges:
            size = planned.end - planned.start
            if not whole or size > room:
                unit, room = unit + 1, shared if whole else _NONE
            planned_ranges.append(replace(planned, unit=unit))
            room = max(_NONE, room - size)
    return tuple(planned_ranges)


def _options(entry: InputEntry) -> dict[str, Any]:
    return {name: value for name, value in to_plain(entry).items() if name not in _OUTSIDE}


def _facts(file: SourceFile, options: dict[str, Any], known: dict[str, Any] | None) -> dict[str, Any]:
    if known is not None and known["options"] == options:
        # the content is as before; the files may have other times, and be in another store
        present = {name: value for name, value in known.items() if name not in ("mtime_ns", "version")}
        present |= file_version(file.path)
        if "others" in known:
            present["others"] = fingerprint_other_files(known["reader"], file.entry.options)
        return present
    reader, splittable = detect(file.path, file.entry.reader)
    facts = {"source": file.source, "bytes": file.bytes, "options": options, **fingerprint_file(file.path, file.bytes)}
    others = fingerprint_other_files(reader, file.entry.options)
    return {**facts, "reader": reader, "splittable": splittable, **({"others": others} if others else {})}


def _path(recipe: Recipe) -> Path:
    return recipe.folder(PLAN_STAGE) / "plan.json"


def read_plan(path: Path) -> dict[str, Any]:
    """Return the plain data of a `plan.json`.

    OSError if it cannot be read, ValueError if it is damaged, NewerFormatError if a newer version wrote it.
    """
    content: dict[str, Any] = unseal(parse_json(path.read_text(encoding="utf-8")), path, PLAN_FORMAT)
    return content


def saved_plan(recipe: Recipe) -> Plan | None:
    """Return the frozen plan of a run, without the paths of its inputs; None before its first start."""
    path = _path(recipe)
    if not path.exists():
        return None
    try:
        data = read_plan(path)
        if data["format"] != PLAN_FORMAT:
            raise ValueError(f"format {data['format']}, this version reads {PLAN_FORMAT}")
        if unknown := data.keys() - {"format", "shards", "inputs", "units"}:
            raise ValueError(f"unknown keys {sorted(unknown)}")
        return Plan(tuple(PlannedRange(**planned) for planned in data["units"]), data["shards"], tuple(data["inputs"]))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise IntegrityError(
            f"{path}: not a plan as it was written ({error}); remove this file and run `clozeline clean` with "
            "the same inputs and configuration, which writes it again"
        ) from error


def freeze_plan(recipe: Recipe, *, verify: bool = False) -> Plan:
    """Return the plan of the recipe's inputs, after writing it to `clean/plan.json` if the file differs.

    The list of inputs is frozen by the first start. Other options of an input, or other keys of `plan`, make a new
    plan, and every stage is done again.
    """
    if not recipe.input:
        raise ConfigurationError("no input: add input=FILE (path, glob, list), or `input:` to the recipe")
    plan, saved = load_plan(recipe, verify=verify), saved_plan(recipe)
    if saved is None or saved.as_json() != plan.as_json():
        publish_json(_path(recipe), seal(plan.as_json()))
    return plan


def load_plan(recipe: Recipe, *, verify: bool = False) -> Plan:
    """Return the plan of the recipe's `input`, with the paths of this machine; without `input` the frozen one.

    `verify` compares the content of every input, also of those whose size and time are as before.
    """
    saved = saved_plan(recipe)
    if not recipe.input:
        if saved is None:
            raise StorageError(f"{_path(recipe)} is missing: run `clozeline clean` first")
        return saved
    files = source_files(recipe.input, recipe.output)
    if saved is not None:
        ranges = ((planned.source, planned.start, planned.end) for planned in saved.ranges)
        changed = find_input_changes(recipe.folder(PLAN_STAGE), saved.inputs, ranges, files, verify=verify)
        if changed:
            paths = ", ".join(str(entry.path) for entry in recipe.input)
            raise ConfigurationError(
                f"{_path(recipe)}: the inputs are not those this output was started with ({len(changed)} differ in "
                f"name, size or content, first {changed[0]!r}, of input={paths}); a run's inputs are frozen: restore "
                "them, or use another output folder"
            )
    return _make_plan(recipe, files, saved)


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
