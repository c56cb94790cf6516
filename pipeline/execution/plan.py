"""The plan: units of input and the number of shards, fixed before any task starts.

Large files are cut into units, and many small files share one. Everything later (names, seeds,
accounting) depends on units, never on tasks. A unit bears the name of its first input, and its end
depends on few inputs next to it, so that an added, changed or removed input changes few units. The
plan holds no absolute path, so you can move or copy the inputs and every uid stays the same.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby, pairwise, repeat
from pathlib import Path
from typing import Any, Final

from clozeline.checksummed_json import read_canonical, write_canonical
from clozeline.configuration.config import to_data
from clozeline.errors import ConfigurationError, IntegrityError, join_names
from clozeline.files import publish, read_bytes
from clozeline.pipeline.execution.inputs import (
    SourceFile,
    list_inputs,
    range_hash,
)
from clozeline.pipeline.execution.remote_file import RemoteFile
from clozeline.pipeline.execution.unit_record import read_records
from clozeline.pipeline.ingest.formats.archives import ARCHIVES, MemberFile
from clozeline.pipeline.ingest.formats.byte_lines import can_cut_at_members
from clozeline.pipeline.ingest.formats.file_types import suffix_of
from clozeline.pipeline.ingest.reader_options import check_options
from clozeline.pipeline.ingest.readers import detect_reader, is_fallback_reader, suggest_tool
from clozeline.pipeline.recipe import InputEntry, Recipe
from clozeline.pipeline.registries import READERS
from clozeline.pipeline.shards.store import ObjectProperties
from clozeline.seeding import hash64

PLAN_FORMAT: Final = 2
"""Newest format of `plan.json`. Format 1 lists the ranges of all units, and repeats all keys for
each input: four times the bytes."""
_KINDS: Final = ("options", "reader", "is_splittable", "has_members", "source_group", "role")
"""Keys of an input that most others share: the stored plan has each combination once."""
# Keys of an input that say where the files are and what they are for, not how to read them.
_LOCATION_KEYS: Final = ("path", "block", "options", "source", "role", "store")
# Value of free bytes that marks a unit as full: it takes no further file, not even an empty one.
_FULL_UNIT: Final = -1
_MOST_SUGGESTIONS: Final = 100
"""Most files of unknown type for which a message suggests a tool."""
LEAST_BYTES: Final = 1 << 28
"""Default bytes of a shard of a small corpus."""
LEAST_UNIT_BYTES: Final = 1 << 25
"""Default bytes of a unit of a small corpus: some seconds of work, so that one file of 100 MB has
work for four cores."""
MOST_UNITS: Final = 8_192
"""Most shards, and about the most units, of a large corpus: units times shards, the number of
shuffle pieces, stays below 2 * 10^8."""
MOST_PIECES: Final = 10**10
"""Most pieces of a shuffle. A piece takes 24 bytes in an index, and about 50 microseconds to write
and read."""
NO_INPUT: Final = (
    "no input: add input=FILE (a path, a pattern or a list), or `input:` to the recipe"
)
PLAN_STAGE: Final = "clean"
"""The stage that reads the inputs, and writes the plan into its folder."""
_VERIFIED: Final = " by content"
"""End of the identity of an input whose content differs from that of the records."""
_SEPARATE_FILES: Final = 64
"""Most small files that have a unit each; more of them share units."""
_LARGE_UNITS: Final = 4
"""A compressed file that one core reads is told from so many times the bytes of a unit on."""
_MOST_NAME_CHARACTERS: Final = 60
"""Most characters of the name of an input in the name of its unit."""


@dataclass(frozen=True, slots=True)
class PlannedRange:
    """A range of one input file, and the unit that reads it.

    `path` is the current location of the file; outputs name the file by `source` alone.
    """

    unit: int
    source: str
    source_group: str
    reader: str
    start: int
    end: int
    entry: InputEntry | None = None
    path: Path | RemoteFile | MemberFile | None = None
    state: ObjectProperties | None = None
    """state of the file when the inputs were listed"""


@dataclass(frozen=True)
class Plan:
    """Ranges ordered by source name and offset, and the number of shards of every later set.

    A unit is one range, or several consecutive small files.
    """

    ranges: tuple[PlannedRange, ...]
    shards: int
    inputs: tuple[dict[str, Any], ...]
    """source, bytes, options, reader, `is_splittable`, `source_group`, `state` (size, time) and
    `identity` of each input, its `role` if it has one, and `has_members` where that decides whether
    it is cut; another identity means another content"""
    unit_bytes: int = 0
    streams: tuple[str, ...] = ()
    """large files that are one unit each, compressed in one member; the stored plan omits them"""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """number of files that are skipped by their names, by suffix; the stored plan omits it"""
    changes: Mapping[str, int] = field(default_factory=dict)
    """number of `new`, `changed` and `removed` inputs since the stored plan, which omits it"""
    shards_before: int = 0
    """number of shards in the stored plan, which omits it"""

    @cached_property
    def bytes(self) -> int:
        """Bytes of all inputs, as they are stored."""
        return sum(each["bytes"] for each in self.inputs)

    @cached_property
    def units(self) -> tuple[tuple[PlannedRange, ...], ...]:
        """Ranges of each unit."""
        return tuple(
            tuple(group) for _, group in groupby(self.ranges, lambda planned: planned.unit)
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the units, and of the files that stages write for them."""
        sizes = {each["source"]: each["bytes"] for each in self.inputs}
        return tuple(_name_unit(unit[0], sizes[unit[0].source]) for unit in self.units)

    @cached_property
    def _sizes(self) -> dict[str, int]:
        sizes = (sum(each.end - each.start for each in unit) for unit in self.units)
        return dict(zip(self.names, sizes, strict=True))

    def weigh(self, units: Iterable[str]) -> int:
        """Return the bytes of units, and 1 for each; other units than the plan's are equal."""
        return sum(1 + self._sizes.get(unit, 0) for unit in units)

    @cached_property
    def compared(self) -> frozenset[int]:
        """Units of inputs with `role: compare`, whose documents no stage writes behind `dedup`."""
        sources = {each["source"] for each in self.inputs if each.get("role") == "compare"}
        return frozenset(each.unit for each in self.ranges if each.source in sources)

    def as_json(self) -> dict[str, object]:
        """Return the content of `clean/plan.json`, from which the units follow."""
        kinds: dict[str, int] = {}
        inputs = []
        for each in self.inputs:
            common = {name: each[name] for name in _KINDS if name in each}
            kind = json.dumps(common, sort_keys=True)
            stored = {name: each[name] for name in ("source", "bytes", "state")}
            if each["identity"] != each["state"]:
                stored["identity"] = each["identity"]
            inputs.append({**stored, "kind": kinds.setdefault(kind, len(kinds))})
        return {
            "format": PLAN_FORMAT,
            "shards": self.shards,
            "unit_bytes": self.unit_bytes,
            "kinds": [*map(json.loads, kinds)],
            "inputs": inputs,
        }


def _name_unit(first: PlannedRange, size: int) -> str:
    """Return the name of a unit, from its first range; `size` is the size of that input."""
    readable = re.sub(r"[^A-Za-z0-9._]+", "-", first.source)[-_MOST_NAME_CHARACTERS:].strip("-.")
    offset = f"-{first.start:013d}" if (first.start, first.end) != (0, size) else ""
    return f"{readable}-{hash64('unit', first.source) >> 16:012x}{offset}"


def _make_plan(
    recipe: Recipe,
    files: Sequence[SourceFile],
    known: Mapping[str, Mapping[str, Any]],
    identities: Mapping[str, str],
) -> Plan:
    """Return the plan of the files.

    Files that the known inputs list with equal options and content stay closed.
    """
    known = {name: each for name, each in known.items() if each["identity"] == identities.get(name)}
    options = {id(entry): _options(entry) for entry in recipe.input}
    inputs: list[dict[str, Any]] = []

    for file in files:
        entry = known.get(file.source)
        if entry is None or entry["options"] != options[id(file.entry)]:
            reader, is_splittable = detect_reader(file.path, file.entry.reader)
            entry = {
                "source": file.source,
                "bytes": file.bytes,
                "options": options[id(file.entry)],
                "reader": reader,
                "is_splittable": is_splittable,
                "identity": identities[file.source],
            }
        planned = {name: value for name, value in entry.items() if name != "role"}
        role = {} if file.entry.role is None else {"role": file.entry.role}
        group = {"source_group": file.entry.source}
        inputs.append({**planned, **role, **group, "state": _describe_state(file)})

    if recipe.has(PLAN_STAGE):  # the files of a task have other readers
        _check_types(
            each for each in zip(files, inputs, strict=True) if each[0].source not in known
        )
        _check_sizes(recipe, files, inputs)

    _check_options(recipe, files, inputs)
    compared = next((entry for entry in recipe.input if entry.role), None)
    if compared is not None and not recipe.has("dedup"):
        raise ConfigurationError(
            f"input {compared.path!r}: `role: compare` is read by the stage dedup alone: add "
            "`dedup: {}` to the recipe, or remove this input"
        )

    # Powers of two change seldom while a corpus grows, and then each shard is split in two. Units
    # and shards of a large corpus are larger, so that there are about MOST_UNITS of them.
    total = sum(each["bytes"] for each in inputs)
    sizes = recipe.plan_options
    least = power_of_two(-(-total // MOST_UNITS))
    unit_bytes = sizes.unit_bytes or max(LEAST_UNIT_BYTES, least)
    shard_bytes = sizes.shard_bytes or max(LEAST_BYTES, least)
    streams = list[str]()
    for file, planned in zip(files, inputs, strict=True):
        if planned["is_splittable"] is None and file.bytes > unit_bytes:
            if "has_members" not in planned:
                planned["has_members"] = can_cut_at_members(file.path, recipe.limits)
            if file.bytes > _LARGE_UNITS * unit_bytes and not planned["has_members"]:
                streams.append(str(file.path))
    ranges = tuple(_cut_into_units(inputs, unit_bytes, files))
    shards = power_of_two(-(-total // shard_bytes))
    units = ranges[-1].unit + 1 if ranges else 0
    if units * shards > MOST_PIECES:
        raise ConfigurationError(
            f"plan: {units:,} units and {shards:,} shards make {units * shards:,} pieces between "
            f"two passes, expected at most {MOST_PIECES:,}: remove plan.unit_bytes and "
            f"plan.shard_bytes, or set both to {max(LEAST_BYTES, least):,}"
        )

    return Plan(ranges, shards, tuple(inputs), unit_bytes, tuple(streams))


def check_inputs(recipe: Recipe) -> None:
    """Refuse inputs that `load_plan` refuses, by the largest file of each suffix."""
    files, _ = list_inputs(recipe.input, recipe.output)
    by_size = sorted(files, key=lambda file: file.bytes)
    largest = {(id(file.entry), suffix_of(file.path.name)): file for file in by_size}
    try:
        _make_plan(recipe, [*largest.values()], {}, defaultdict(str))
    except ConfigurationError:
        load_plan(recipe)  # its message counts all files


def power_of_two(number: int) -> int:
    """Return the smallest power of two that is not below a number."""
    return 1 << max(0, number - 1).bit_length()


def _options(entry: InputEntry) -> dict[str, Any]:
    return {name: value for name, value in to_data(entry).items() if name not in _LOCATION_KEYS}


def _check_types(planned: Iterable[tuple[SourceFile, Mapping[str, Any]]]) -> None:
    """Refuse files whose reader neither their content nor their name determines."""
    unknown = [
        file
        for file, entry in planned
        if file.bytes and not file.entry.reader and is_fallback_reader(file.path, entry["reader"])
    ]
    if not unknown:
        return
    tools = {
        suffix_of(file.path.name): suggest_tool(file.path) for file in unknown[:_MOST_SUGGESTIONS]
    }
    hints = "".join(f"; {suffix}: {tool}" for suffix, tool in tools.items() if tool)
    where = unknown[0].folder or unknown[0].path
    raise ConfigurationError(
        f"input '{where}': no reader is known for files of this type ({len(unknown):,}): "
        f"{join_names([file.path for file in unknown])}{hints}; move them away, name the files to "
        "read by a pattern (input='FOLDER/**/*.jsonl'), or read them as text: "
        f"input='{{path: {where}, reader: text}}' makes one document of a file, `reader: lines` "
        "makes one of each line"
    )


def _check_options(
    recipe: Recipe, files: Sequence[SourceFile], inputs: Sequence[Mapping[str, Any]]
) -> None:
    """Refuse options that no reader of an entry has."""
    readers_of: dict[int, set[str]] = {}
    for file, planned in zip(files, inputs, strict=True):
        readers_of.setdefault(id(file.entry), set()).add(planned["reader"])
    for entry in recipe.input:
        readers = readers_of[id(entry)]
        named = None if entry.reader is None else {entry.reader}
        try:
            # the readers of the members of an archive are not known yet
            check_options(entry.options, readers if readers.isdisjoint(ARCHIVES) else named)
        except ConfigurationError as error:
            raise ConfigurationError(f"input {entry.path!r}: {error}") from error


def _check_sizes(
    recipe: Recipe, files: Sequence[SourceFile], inputs: Sequence[Mapping[str, Any]]
) -> None:
    """Refuse files that would be one record above `limits.record_bytes`."""
    limit = recipe.limits.record_bytes
    large = [
        file
        for file, planned in zip(files, inputs, strict=True)
        if file.bytes > limit
        and planned["reader"] not in ARCHIVES
        and READERS.load_class(planned["reader"]).reads_whole_files
    ]
    if large and recipe.on_error.malformed == "fail":
        most = max(file.bytes for file in large)
        raise ConfigurationError(
            f"files above limits.record_bytes={limit} ({len(large):,}): "
            f"{join_names([file.path for file in large], 3)}: each would be one document; make one "
            f"of each line, with input='{{path: {large[0].folder or large[0].path}, reader: "
            f"lines}}', or allow such documents, with limits.record_bytes={most} "
            f"limits.text_chars={most}, for which a worker may need 40 times as much memory; "
            "on_error.malformed=accept drops them"
        )


def _cut_into_units(
    inputs: Sequence[Mapping[str, Any]], unit_bytes: int, files: Iterable[SourceFile | None]
) -> Iterator[PlannedRange]:
    """Yield the ranges of the inputs; `files` are on this machine, or None of a stored plan.

    Consecutive small files of a source and role share a unit of at most `unit_bytes`. A hash of its
    name and its size decide whether a file is the last of its unit, so that other files change only
    the units next to them (content-defined chunking; Muthitacharoen et al. 2001).
    """
    small = sum(each["bytes"] <= unit_bytes for each in inputs)
    share = 1 / power_of_two(-(-small // _SEPARATE_FILES))
    unit = -1
    free_bytes = _FULL_UNIT
    group: tuple[str, str | None] = ("", None)

    for file, planned in zip(files, inputs, strict=False):
        size = planned["bytes"]
        is_splittable = planned["is_splittable"] or planned.get("has_members")
        count = max(1, -(-size // unit_bytes)) if is_splittable else 1
        bounds = [size * index // count for index in range(count + 1)]
        if (planned["source_group"], planned.get("role")) != group:
            free_bytes = _FULL_UNIT
            group = (planned["source_group"], planned.get("role"))

        for start, end in pairwise(bounds):
            # start a unit for each part of a cut file, and when the unit of small files is full
            if count > 1 or end - start > free_bytes:
                unit = unit + 1
                free_bytes = unit_bytes if count == 1 else _FULL_UNIT

            free_bytes = max(_FULL_UNIT, free_bytes - (end - start))
            names = (planned["source"], planned["source_group"], planned["reader"])
            found = () if file is None else (file.entry, file.path, file.state)
            yield PlannedRange(unit, *names, start, end, *found)

        last = hash64("last of a unit", planned["source"])
        if last < 2**64 * max(share, 2 * size / unit_bytes):
            free_bytes = _FULL_UNIT


def _describe_state(file: SourceFile) -> str:
    return f"{file.bytes} bytes {file.state.version}"


def _identify(
    recipe: Recipe,
    before: Mapping[str, Mapping[str, Any]],
    files: Sequence[SourceFile],
    *,
    verify: bool,
) -> dict[str, str]:
    """Return the identity of each input's content, by source.

    A file with another size or time, or with another version in a store, has another identity than
    `before`. With `verify`, the content of a local file of the same size decides: the ranges that
    units have read are compared with the hashes in their records.
    """
    identities = {}
    paths = {}
    for file in files:
        state = _describe_state(file)
        known = before.get(file.source, {})
        identities[file.source] = known["identity"] if known.get("state") == state else state
        if verify and isinstance(file.path, Path) and known.get("bytes") == file.bytes:
            paths[file.source] = file.path

    for record in read_records(recipe.folder(PLAN_STAGE)) if paths else ():
        for part, digest in record.inputs.items():
            name, _, bounds = part.rpartition(" ")
            if name in paths:
                found = range_hash(paths[name], *map(int, bounds.split("-")))
                # a file that changed in one range has changed
                is_known = found == digest and not identities[name].endswith(_VERIFIED)
                identities[name] = before[name]["identity"] if is_known else f"{found}{_VERIFIED}"
    return identities


def _path(recipe: Recipe) -> Path:
    return recipe.folder(PLAN_STAGE) / "plan.json"


def read_plan(path: Path) -> dict[str, Any]:
    """Return the content of a `plan.json`, with all keys of each input.

    Raises:
        OSError: it cannot be read.
        ValueError: it is damaged.
        NewerFormatError: a newer version wrote it.
    """
    content = read_canonical(read_bytes(path), path, PLAN_FORMAT)
    if kinds := content.get("kinds"):
        content["inputs"] = [
            {**kinds[each.pop("kind")], "identity": each["state"], **each}
            for each in content["inputs"]
        ]
    return content


def _load_saved_plan(recipe: Recipe) -> Plan | None:
    """Return the stored plan of a run, without paths of inputs; None before the first start."""
    path = _path(recipe)
    if not path.exists():
        return None
    try:
        data = read_plan(path)
        inputs = tuple(data["inputs"])
        unit_bytes = data.get("unit_bytes", 0)
        ranges = (
            (PlannedRange(**planned) for planned in data["units"])
            if data["format"] == 1
            else _cut_into_units(inputs, unit_bytes, repeat(None))
        )
        return Plan(tuple(ranges), data["shards"], inputs, unit_bytes)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise IntegrityError(
            f"{path}: the plan is damaged ({error}); remove this file and run `clozeline clean` "
            "with the same inputs and configuration, which writes it again"
        ) from error


def load_plan(recipe: Recipe, *, verify: bool = False, store: bool = False) -> Plan:
    """Return the plan of the recipe's `input` with local paths; without `input`, the stored plan.

    Inputs that were added, changed or removed since the last start change their units alone.
    `verify` compares the content of every input, even if size and time are equal. `store` writes
    the plan if it differs from the stored one.
    """
    saved = _load_saved_plan(recipe)
    if not recipe.input:
        if saved is None:
            raise ConfigurationError(NO_INPUT)
        return saved

    files, skipped = list_inputs(recipe.input, recipe.output)
    before = {each["source"]: each for each in saved.inputs} if saved else {}
    now = _identify(recipe, before, files, verify=verify)
    plan = replace(_make_plan(recipe, files, before, now), skipped=skipped)
    path = _path(recipe)
    content = write_canonical(plan.as_json()) if store else b""
    if store and (saved is None or read_bytes(path) != content):
        with publish(path) as temporary:
            temporary.write_bytes(content)
    if saved is None:
        return replace(plan, shards_before=plan.shards)

    changes = {
        "new": len(now.keys() - before.keys()),
        "changed": sum(before[name]["identity"] != now[name] for name in now.keys() & before),
        "removed": len(before.keys() - now.keys()),
    }
    return replace(plan, changes=changes, shards_before=saved.shards)
