"""The plan: input files cut into units or packed into them, and the number of shards, fixed before any task starts.

Everything later (names, seeds, accounting) depends on units, never on tasks. The plan holds no absolute path, and its
digest covers no time, so moving or copying the inputs keeps every uid.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Final

from clozeline.configuration.config import to_plain
from clozeline.errors import ConfigurationError, IntegrityError, StorageError
from clozeline.files import parse_json, publish_json
from clozeline.pipeline.execution.input_changes import (
    OBSERVED,
    find_input_changes,
    fingerprint_file,
    fingerprint_other_files,
)
from clozeline.pipeline.execution.inputs import SourceFile, check_kinds, source_files
from clozeline.pipeline.ingest.readers import check_options, detect, is_guess
from clozeline.pipeline.recipe import InputEntry, Recipe
from clozeline.sealed_json import seal, unseal

PLAN_FORMAT: Final = 1
# Options that plans of this format hold for every input, whatever its reader; others are held where they are given.
_FIRST_OPTIONS: Final = {"columns": None, "target_path": None, "text_key": "text", "url_key": "url"}
# Room for no further file, not even an empty one.
_NONE: Final = -1
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
    path: Path | None = None


@dataclass(frozen=True)
class Plan:
    """Ranges in order of source name and offset, and the number of shards of every later set.

    A unit is one range, or several consecutive small files.
    """

    ranges: tuple[PlannedRange, ...]
    shards: int
    digest: str
    inputs: tuple[dict[str, Any], ...]

    @property
    def bytes(self) -> int:
        """Bytes of all inputs, as they are stored."""
        return sum(facts["bytes"] for facts in self.inputs)

    @cached_property
    def units(self) -> tuple[tuple[PlannedRange, ...], ...]:
        """The ranges of each unit."""
        return tuple(tuple(group) for _, group in groupby(self.ranges, lambda planned: planned.unit))

    def as_json(self) -> dict[str, Any]:
        """Return the content of `clean/plan.json`. Its key `units` lists ranges; those of one unit share a number."""
        units = [
            {name: value for name, value in asdict(planned).items() if name not in ("entry", "path")}
            for planned in self.ranges
        ]
        return {"format": PLAN_FORMAT, "shards": self.shards, "inputs": list(self.inputs), "units": units}


def _make_plan(recipe: Recipe, files: Sequence[SourceFile], saved: Plan | None) -> Plan:
    """Cut the files; those that the saved plan holds with the same options are not opened again."""
    known = {} if saved is None else {facts["source"]: facts for facts in saved.inputs}
    pieces: list[list[PlannedRange]] = []
    inputs: list[dict[str, Any]] = []
    for file in files:
        facts = _facts(file, known.get(file.source))
        inputs.append(facts)
        count = max(1, -(-file.bytes // recipe.plan_options.unit_bytes)) if facts["splittable"] else 1
        bounds = [file.bytes * index // count for index in range(count + 1)]
        planned = PlannedRange(0, file.source, file.entry.source, facts["reader"], 0, 0, file.entry, file.path)
        pieces.append([replace(planned, start=start, end=end) for start, end in pairwise(bounds)])
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
    shards = max(1, -(-sum(file.bytes for file in files) // recipe.plan_options.shard_bytes))
    alone = _with_digest(Plan(_number_units(pieces, _NONE), shards, "", tuple(inputs)))
    if saved is not None and saved.digest == alone.digest:
        return alone  # a run that began when each file was a unit of its own stays complete
    return _with_digest(Plan(_number_units(pieces, recipe.plan_options.unit_bytes), shards, "", tuple(inputs)))


def _number_units(pieces: Sequence[Sequence[PlannedRange]], shared: int) -> tuple[PlannedRange, ...]:
    """Number the units: consecutive files that are not cut share one while they have `shared` bytes or less."""
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


def _facts(file: SourceFile, known: dict[str, Any] | None) -> dict[str, Any]:
    plain = {name: value for name, value in to_plain(file.entry).items() if name not in ("path", "source", "unknown")}
    options = {**_FIRST_OPTIONS, **plain}
    if known is not None and known["options"] == options:
        if "mtime_ns" not in known:
            return known
        # the content is as before; the files may have other times
        present = {**known, "mtime_ns": file.path.stat().st_mtime_ns}
        if "others" in known:
            present["others"] = fingerprint_other_files(known["reader"], file.entry.options)
        return present
    reader, splittable = detect(file.path, file.entry.reader)
    facts = {"source": file.source, "bytes": file.bytes, "options": options, **fingerprint_file(file.path, file.bytes)}
    others = fingerprint_other_files(reader, file.entry.options)
    return {**facts, "reader": reader, "splittable": splittable, **({"others": others} if others else {})}


def _with_digest(plan: Plan) -> Plan:
    facts = [{name: value for name, value in each.items() if name not in OBSERVED} for each in plan.inputs]
    text = json.dumps({**plan.as_json(), "inputs": facts}, sort_keys=True, separators=(",", ":"))
    return replace(plan, digest=hashlib.sha256(text.encode()).hexdigest())


def _path(recipe: Recipe) -> Path:
    return recipe.folder(PLAN_STAGE) / "plan.json"


def _read(recipe: Recipe) -> Plan | None:
    path = _path(recipe)
    if not path.exists():
        return None
    try:
        data = unseal(parse_json(path.read_text(encoding="utf-8")), path, PLAN_FORMAT)
        if data["format"] != PLAN_FORMAT:
            raise ValueError(f"format {data['format']}, this version reads {PLAN_FORMAT}")
        if unknown := data.keys() - {"format", "shards", "inputs", "units"}:
            raise ValueError(f"unknown keys {sorted(unknown)}")
        ranges = tuple(PlannedRange(**planned) for planned in data["units"])
        return _with_digest(Plan(ranges, data["shards"], "", tuple(data["inputs"])))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise IntegrityError(
            f"{path}: not a plan as it was written ({error}); remove this file and run `clozeline clean` with "
            "the same inputs and configuration, which writes it again"
        ) from error


def freeze_plan(recipe: Recipe, *, verify: bool = False) -> Plan:
    """Return the plan, after writing it as `clean/plan.json` where the file does not hold it yet.

    The list of inputs is frozen by the first start. Other options of an input, or other keys of `plan`, make a new
    plan, and every stage is done again.
    """
    if not recipe.input:
        raise ConfigurationError("no input: add input=FILE (path, glob, list), or `input:` to the recipe")
    plan, saved = load_plan(recipe, verify=verify), _read(recipe)
    if saved is None or saved.as_json() != plan.as_json():
        publish_json(_path(recipe), seal(plan.as_json()))
    return plan


def load_plan(recipe: Recipe, *, verify: bool = False) -> Plan:
    """Return the plan of the recipe's `input`, with the paths of this machine; without `input` the frozen one.

    `verify` compares the content of every input, also of those whose size and time are as before.
    """
    saved = _read(recipe)
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
