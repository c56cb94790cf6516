"""The plan: input files cut into units or packed into them, and the number of shards, fixed before any task starts.

Everything later (names, seeds, accounting) depends on units, never on tasks. The plan holds no
absolute path, and its digest covers no time, so moving or copying the inputs keeps every uid.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Final

from clozeline.checksummed_json import add_checksum, verify_checksum
from clozeline.configuration.config import config_digest, to_data
from clozeline.errors import ConfigurationError, IntegrityError, StorageError, join_names
from clozeline.files import parse_json, publish_json
from clozeline.pipeline.execution.inputs import (
    FileState,
    SourceFile,
    ends_hash,
    list_inputs,
    range_hash,
    range_name,
)
from clozeline.pipeline.execution.remote_file import RemoteFile
from clozeline.pipeline.execution.unit_record import read_records
from clozeline.pipeline.ingest.formats.archives import ARCHIVES, MemberFile
from clozeline.pipeline.ingest.formats.file_types import suffix_of
from clozeline.pipeline.ingest.reader_options import check_options
from clozeline.pipeline.ingest.readers import detect_reader, is_fallback_reader, suggest_tool
from clozeline.pipeline.recipe import InputEntry, Recipe

PLAN_FORMAT: Final = 1
"""Newest format of `plan.json`."""
# Keys of an input that say where its files are, not how they are read.
_OUTSIDE: Final = ("path", "source", "store")
# Room for no further file, not even an empty one.
_NONE: Final = -1
_EXAMPLES: Final = 100
"""Files of no known kind of which a message says what reads them."""
_STORED: Final = ("unit", "source", "source_group", "reader", "start", "end")
LEAST_BYTES: Final = 1 << 28
"""Default bytes of a unit and of a shard of a small corpus."""
MOST_UNITS: Final = 8_192
"""Units and shards of a large one, so that their product, the pieces of a shuffle, stays below 7 *
10^7."""
MOST_PIECES: Final = 10**10
"""Pieces of a shuffle: each takes 24 bytes of an index and some 50 microseconds to write and
read."""
PLAN_STAGE: Final = "clean"
"""The stage that reads the inputs, so its first start freezes the plan."""


@dataclass(frozen=True, slots=True)
class PlannedRange:
    """A range of one input file, and its unit.

    `path` is where it is now; outputs name it by `source` alone.
    """

    unit: int
    source: str
    source_group: str
    reader: str
    start: int
    end: int
    entry: InputEntry | None = None
    path: Path | RemoteFile | MemberFile | None = None
    state: FileState | None = None
    """state of the file when the inputs were listed"""


@dataclass(frozen=True)
class Plan:
    """Ranges in order of source name and offset, and the number of shards of every later set.

    A unit is one range, or several consecutive small files.
    """

    ranges: tuple[PlannedRange, ...]
    shards: int
    inputs: tuple[dict[str, Any], ...]
    """source, bytes, options, reader, and whether it can be split, of each input"""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """files that folders and patterns skip by their names, by suffix; not a part of the stored
    plan"""
    states: Mapping[str, FileState] = field(default_factory=dict)
    """state of each input by name; it says whether the file changed, and decides nothing else"""

    @property
    def bytes(self) -> int:
        """Bytes of all inputs, as they are stored."""
        return sum(facts["bytes"] for facts in self.inputs)

    @cached_property
    def units(self) -> tuple[tuple[PlannedRange, ...], ...]:
        """The ranges of each unit."""
        return tuple(
            tuple(group) for _, group in groupby(self.ranges, lambda planned: planned.unit)
        )

    @cached_property
    def digest(self) -> str:
        """Digest of the plan, without the states of files."""
        return config_digest({**self.as_json(), "states": {}})

    def as_json(self) -> dict[str, object]:
        """Return the content of `clean/plan.json`.

        Its key `units` lists ranges; ranges of a unit share an index.
        """
        units = [{name: getattr(planned, name) for name in _STORED} for planned in self.ranges]
        states = {name: list(astuple(state)) for name, state in self.states.items()}
        return {
            "format": PLAN_FORMAT,
            "shards": self.shards,
            "inputs": list(self.inputs),
            "units": units,
            "states": states,
        }


def _make_plan(recipe: Recipe, files: Sequence[SourceFile], saved: Plan | None) -> Plan:
    """Cut the files; those that the saved plan holds with the same options are not opened again."""
    known = {} if saved is None else {facts["source"]: facts for facts in saved.inputs}
    options = {id(entry): _options(entry) for entry in recipe.input}
    inputs: list[dict[str, Any]] = []
    for file in files:
        if (facts := known.get(file.source)) is None or facts["options"] != options[id(file.entry)]:
            reader, is_splittable = detect_reader(file.path, file.entry.reader)
            facts = {
                "source": file.source,
                "bytes": file.bytes,
                "options": options[id(file.entry)],
                "reader": reader,
                "is_splittable": is_splittable,
            }
        inputs.append(facts)
    if recipe.has(PLAN_STAGE):  # files of a task have readers of their own
        new = [each for each in zip(files, inputs, strict=True) if each[0].source not in known]
        _check_kinds([file for file, facts in new if _has_unknown_kind(file, facts)])
    _check_options(recipe, files, inputs)
    total = sum(facts["bytes"] for facts in inputs)
    sizes = recipe.plan_options
    default = max(LEAST_BYTES, -(-total // MOST_UNITS))
    unit_bytes = sizes.unit_bytes or default
    shard_bytes = sizes.shard_bytes or default
    ranges = tuple(_cut(files, inputs, unit_bytes))
    shards = max(1, -(-total // shard_bytes))
    units = ranges[-1].unit + 1 if ranges else 0
    if units * shards > MOST_PIECES:
        raise ConfigurationError(
            f"plan: {units:,} units and {shards:,} shards make {units * shards:,} pieces between "
            "two passes, expected "
            f"at most {MOST_PIECES:,}: leave plan.unit_bytes and plan.shard_bytes out, or set "
            f"both to {default:,}"
        )
    before = {} if saved is None else saved.states
    states = {file.source: _with_ends(file, before.get(file.source)) for file in files}
    return Plan(ranges, shards, tuple(inputs), states=states)


def _with_ends(file: SourceFile, before: FileState | None) -> FileState:
    """Return the state of an input with the hash of its ends, which that of an unchanged file has already."""
    if before == file.state or isinstance(file.path, RemoteFile):
        return before or file.state
    return replace(file.state, ends=ends_hash(file.path, file.bytes))


def _options(entry: InputEntry) -> dict[str, Any]:
    return {name: value for name, value in to_data(entry).items() if name not in _OUTSIDE}


def _has_unknown_kind(file: SourceFile, facts: Mapping[str, Any]) -> bool:
    """Return whether neither content nor name of a file tell its reader."""
    return (
        file.bytes > 0
        and file.entry.reader is None
        and is_fallback_reader(file.path, facts["reader"])
    )


def _check_kinds(unknown: Sequence[SourceFile]) -> None:
    if not unknown:
        return
    first = unknown[0]
    names = join_names([file.path for file in unknown])
    tools = {suffix_of(file.path.name): suggest_tool(file.path) for file in unknown[:_EXAMPLES]}
    hints = "".join(f"; {suffix}: {tool}" for suffix, tool in tools.items() if tool)
    if (folder := first.folder) is None:
        raise ConfigurationError(
            f"input: no reader is known for files of this kind ({len(unknown):,}): "
            f"{names}{hints}; to read "
            f"a file as plain text: input='{{path: {first.path}, reader: text}}' makes one "
            "document of it, `reader: "
            "lines` one of each line"
        )
    raise ConfigurationError(
        f"input {folder!r} holds files of no known kind ({len(unknown):,}): {names}{hints}; "
        f"move them away, name the files to read by a pattern (input='{folder}/**/*.jsonl'), or "
        "choose a reader "
        f"for all of the folder (input='{{path: {folder}, reader: text}}')"
    )


def _check_options(
    recipe: Recipe, files: Sequence[SourceFile], inputs: Sequence[Mapping[str, Any]]
) -> None:
    """Refuse options that no reader of an entry has."""
    readers_of: dict[int, set[str]] = {}
    for file, facts in zip(files, inputs, strict=True):
        readers_of.setdefault(id(file.entry), set()).add(facts["reader"])
    for entry in recipe.input:
        readers = readers_of[id(entry)]
        named = None if entry.reader is None else {entry.reader}
        try:
            # the readers of the members of an archive are not known yet
            check_options(entry.options, readers if readers.isdisjoint(ARCHIVES) else named)
        except ConfigurationError as error:
            raise ConfigurationError(f"input {entry.path!r}: {error}") from error


def _cut(
    files: Sequence[SourceFile], inputs: Sequence[Mapping[str, Any]], unit_bytes: int
) -> Iterator[PlannedRange]:
    """Yield the ranges of the files; consecutive files that are not cut share a unit of `unit_bytes` or less."""
    unit = -1
    room = _NONE
    for file, facts in zip(files, inputs, strict=True):
        count = max(1, -(-file.bytes // unit_bytes)) if facts["is_splittable"] else 1
        for start, end in pairwise(file.bytes * index // count for index in range(count + 1)):
            if count > 1 or end - start > room:
                unit = unit + 1
                room = unit_bytes if count == 1 else _NONE
            room = max(_NONE, room - (end - start))
            reader = facts["reader"]
            yield PlannedRange(
                unit,
                file.source,
                file.entry.source,
                reader,
                start,
                end,
                file.entry,
                file.path,
                file.state,
            )


def _find_changes(
    recipe: Recipe, saved: Plan, files: Sequence[SourceFile], *, verify: bool
) -> list[str]:
    """Return the names of inputs that are new, missing or have changed content.

    A file of the same size and time, or version in its store, is taken as unchanged. Of a local one
    with another time (with `verify`, of all), as after a copy, what units have read is compared
    with their records, and where a part was not read yet, both ends of the file with those of the
    first start.
    """
    planned = {facts["source"] for facts in saved.inputs}
    changed = planned ^ {file.source for file in files}
    doubtful: dict[str, Path] = {}
    for file in files:
        if file.source not in planned:
            continue
        state = file.state
        before = saved.states[file.source]
        if state.size != before.size or (isinstance(file.path, RemoteFile) and state != before):
            changed.add(file.source)
        elif isinstance(file.path, Path) and (verify or state != before):
            doubtful[file.source] = file.path
    was_read = set[str]()
    for record in read_records(recipe.folder(PLAN_STAGE)) if doubtful else ():
        for part, digest in record.inputs.items():
            name, _, bounds = part.rpartition(" ")
            was_read.add(part)
            if (
                name in doubtful
                and range_hash(doubtful[name], *map(int, bounds.split("-"))) != digest
            ):
                changed.add(name)
    parts = (
        (planned.source, range_name(planned.source, planned.start, planned.end))
        for planned in saved.ranges
    )
    unread = {source for source, part in parts if part not in was_read}
    for name in doubtful.keys() & unread:
        state = saved.states[name]
        if ends_hash(doubtful[name], state.size) != state.ends:
            changed.add(name)
    return sorted(changed)


def _path(recipe: Recipe) -> Path:
    return recipe.folder(PLAN_STAGE) / "plan.json"


def read_plan(path: Path) -> dict[str, Any]:
    """Return the plain data of a `plan.json`.

    OSError if it cannot be read, ValueError if it is damaged, NewerFormatError if a newer version
    wrote it.
    """
    content: dict[str, object] = verify_checksum(
        parse_json(path.read_text(encoding="utf-8")), path, PLAN_FORMAT
    )
    return content


def saved_plan(recipe: Recipe) -> Plan | None:
    """Return the frozen plan of a run, without the paths of its inputs; None before its first start."""
    path = _path(recipe)
    if not path.exists():
        return None
    try:
        data = read_plan(path)
        ranges = tuple(PlannedRange(**planned) for planned in data["units"])
        states = {name: FileState(*state) for name, state in data["states"].items()}
        return Plan(ranges, data["shards"], tuple(data["inputs"]), states=states)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise IntegrityError(
            f"{path}: not a plan as it was written ({error}); remove this file and run `clozeline "
            "clean` with "
            "the same inputs and configuration, which writes it again"
        ) from error


def freeze_plan(recipe: Recipe, *, verify: bool = False) -> Plan:
    """Return the plan of the recipe's inputs, after writing it to `clean/plan.json` if the file differs.

    The list of inputs is frozen by the first start. Other options of an input, or other keys of
    `plan`, make a new plan, and every stage is done again.
    """
    if not recipe.input:
        raise ConfigurationError(
            "no input: add input=FILE (path, glob, list), or `input:` to the recipe"
        )
    plan = load_plan(recipe, verify=verify)
    saved = saved_plan(recipe)
    if saved is None or saved.as_json() != plan.as_json():
        publish_json(_path(recipe), add_checksum(plan.as_json()))
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
    files, skipped = list_inputs(recipe.input, recipe.output)
    if saved is not None and (changed := _find_changes(recipe, saved, files, verify=verify)):
        paths = ", ".join(str(entry.path) for entry in recipe.input)
        raise ConfigurationError(
            f"{_path(recipe)}: the inputs are not those this output was started with "
            f"({len(changed)} differ in "
            f"name, size or content, first {changed[0]!r}, of input={paths}); a run's inputs are "
            "frozen: restore "
            "them, or use another output folder"
        )
    return replace(_make_plan(recipe, files, saved), skipped=skipped)
