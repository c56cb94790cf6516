"""The plan: input files cut into units or packed into them, and the number of shards, fixed before any task starts.

Everything later (names, seeds, accounting) depends on units, never on tasks. The plan holds no absolute path, and its
digest covers no time, so moving or copying the inputs keeps every uid. A run that grows has generations of inputs: new
units follow the old ones, which keep their numbers.
"""

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Final

from clozeline.configuration.config import to_plain
from clozeline.errors import ConfigurationError, IntegrityError, StorageError
from clozeline.pipeline.execution.input_changes import (
    OBSERVED,
    file_version,
    find_input_changes,
    fingerprint_file,
    fingerprint_other_files,
)
from clozeline.pipeline.execution.inputs import SourceFile, check_kinds, source_files
from clozeline.pipeline.execution.plan_file import PLAN_FORMAT, publish_plan, read_plan
from clozeline.pipeline.execution.remote_file import RemoteFile
from clozeline.pipeline.ingest.reader_options import check_options
from clozeline.pipeline.ingest.readers import detect, is_guess
from clozeline.pipeline.recipe import InputEntry, PlanConfig, Recipe

_GENERATIONS: Final = 2
"""Format of plans with several generations of inputs; with a single one they have format 1."""
# Options that plans of this format hold for every input, whatever its reader; others are held where they are given.
_FIRST_OPTIONS: Final = {"columns": None, "target_path": None, "text_key": "text", "url_key": "url"}
# Keys of an input that say where its files are, not how they are read.
_OUTSIDE: Final = ("path", "source", "unknown", "store")
# Room for no further file, not even an empty one.
_NONE: Final = -1
_STORED: Final = ("unit", "source", "source_group", "reader", "start", "end")
LEAST_BYTES: Final = 1 << 28
"""Default bytes of a unit and of a shard of a small corpus."""
MOST_UNITS: Final = 8_192
"""Units and shards of a large one, so that their product, the pieces of an exchange, stays below 7 * 10^7."""
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


@dataclass(frozen=True, slots=True)
class Generation:
    """Inputs, units and shards of a run up to and with the inputs that it got at once."""

    inputs: int
    units: int
    shards: int


@dataclass(frozen=True)
class Plan:
    """Ranges in order of generation, source name and offset, and the number of shards of every later set.

    A unit is one range, or several consecutive small files.
    """

    ranges: tuple[PlannedRange, ...]
    shards: int
    digest: str
    inputs: tuple[dict[str, Any], ...]
    generations: tuple[Generation, ...]

    @property
    def bytes(self) -> int:
        """Bytes of all inputs, as they are stored."""
        return sum(facts["bytes"] for facts in self.inputs)

    @cached_property
    def units(self) -> tuple[tuple[PlannedRange, ...], ...]:
        """The ranges of each unit."""
        return tuple(tuple(group) for _, group in groupby(self.ranges, lambda planned: planned.unit))

    def as_json(self) -> dict[str, Any]:
        """Return the content of `clean/plan.json`. Its key `units` lists ranges; ranges of a unit share an index."""
        units = [{name: getattr(planned, name) for name in _STORED} for planned in self.ranges]
        plain = {"format": 1, "shards": self.shards, "inputs": list(self.inputs), "units": units}
        if len(self.generations) > 1:
            plain |= {"format": _GENERATIONS, "generations": [asdict(each) for each in self.generations]}
        return plain

    def until(self, generation: int) -> "Plan":
        """Return the plan as it was before later generations joined."""
        last = self.generations[generation]
        if len(self.generations) == generation + 1 and self.digest:
            return self
        ranges = tuple(planned for planned in self.ranges if planned.unit < last.units)
        generations = self.generations[: generation + 1]
        return _with_digest(Plan(ranges, last.shards, "", self.inputs[: last.inputs], generations))


def _make_plan(recipe: Recipe, generations: Sequence[Sequence[SourceFile]], saved: Plan | None) -> Plan:
    """Cut the files; those that the saved plan holds with the same options are not opened again."""
    known = {} if saved is None else {facts["source"]: facts for facts in saved.inputs}
    files = [file for generation in generations for file in generation]
    options_of = {id(file.entry): _options(file.entry) for file in {id(file.entry): file for file in files}.values()}
    inputs = [_facts(file, options_of[id(file.entry)], known.get(file.source)) for file in files]
    _check_readers(recipe, files, inputs, known.keys())
    plan, rest = Plan((), 0, "", (), ()), iter(inputs)
    options = recipe.plan_options
    for number, generation in enumerate(generations):
        added = [(file, next(rest)) for file in generation]
        total = plan.bytes + sum(facts["bytes"] for _, facts in added)
        sizes = _Sizes.of(options, max(LEAST_BYTES, -(-total // MOST_UNITS)))
        if saved is not None and number < len(saved.generations):
            # a run stays complete that began when each file was a unit of its own, or all units of 256 MiB
            fixed, before = _Sizes.of(options, LEAST_BYTES), saved.until(number).digest
            tried = (
                _add_generation(plan, added, each)
                for each in dict.fromkeys((sizes, fixed, replace(fixed, shared=_NONE)))
            )
            if (same := next((each for each in tried if each.digest == before), None)) is not None:
                plan = same
                continue
        plan = _add_generation(plan, added, sizes)
    return plan


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Bytes of a unit, of the small files that share one, and of a shard."""

    unit: int
    shared: int
    shard: int

    @staticmethod
    def of(options: PlanConfig, default: int) -> "_Sizes":
        unit = options.unit_bytes or default
        return _Sizes(unit, unit, options.shard_bytes or default)


def _add_generation(plan: Plan, added: Sequence[tuple[SourceFile, dict[str, Any]]], sizes: _Sizes) -> Plan:
    """Return the plan with the units of further inputs after its own."""
    pieces: list[list[PlannedRange]] = []
    for file, facts in added:
        count = max(1, -(-file.bytes // sizes.unit)) if facts["splittable"] else 1
        bounds = [file.bytes * index // count for index in range(count + 1)]
        planned = PlannedRange(0, file.source, file.entry.source, facts["reader"], 0, 0, file.entry, file.path)
        pieces.append([replace(planned, start=start, end=end) for start, end in pairwise(bounds)])
    ranges = (*plan.ranges, *_number_units(pieces, sizes.shared, plan.generations[-1].units if plan.generations else 0))
    inputs = (*plan.inputs, *(facts for _, facts in added))
    shards = max(1, -(-sum(facts["bytes"] for facts in inputs) // sizes.shard))
    generation = Generation(len(inputs), ranges[-1].unit + 1, shards)
    return _with_digest(Plan(ranges, shards, "", inputs, (*plan.generations, generation)))


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


def _split_generations(recipe: Recipe, files: Sequence[SourceFile], saved: Plan | None) -> list[list[SourceFile]]:
    """Return the files of each generation: first the saved plan's, then new ones by the entry that names them."""
    saved_generations = () if saved is None else saved.generations
    sources = () if saved is None else saved.inputs
    ends = [0, *(each.inputs for each in saved_generations)]
    known = {
        facts["source"]: number for number, (start, end) in enumerate(pairwise(ends)) for facts in sources[start:end]
    }
    if not recipe.extend:
        generations: list[list[SourceFile]] = [[] for _ in saved_generations or (0,)]
        for file in files:
            generations[known.get(file.source, 0)].append(file)
        return generations
    entries = {id(entry): len(saved_generations) + index for index, entry in enumerate(recipe.input)}
    by_number: dict[int, list[SourceFile]] = {}
    for file in files:
        by_number.setdefault(known.get(file.source, entries[id(file.entry)]), []).append(file)
    return [by_number[number] for number in sorted(by_number)]


def _number_units(pieces: Sequence[Sequence[PlannedRange]], shared: int, first: int) -> tuple[PlannedRange, ...]:
    """Number the units from `first`: consecutive files that are not cut share one of `shared` bytes or less."""
    planned_ranges: list[PlannedRange] = []
    unit, room = first - 1, _NONE
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
    plain = {name: value for name, value in to_plain(entry).items() if name not in _OUTSIDE}
    return {**_FIRST_OPTIONS, **plain}


def _facts(file: SourceFile, options: dict[str, Any], known: dict[str, Any] | None) -> dict[str, Any]:
    if known is not None and known["options"] == options:
        if not known.keys() & {"mtime_ns", "version"}:
            return known
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


def _with_digest(plan: Plan) -> Plan:
    facts = [{name: value for name, value in each.items() if name not in OBSERVED} for each in plan.inputs]
    text = json.dumps({**plan.as_json(), "inputs": facts}, sort_keys=True, separators=(",", ":"))
    return replace(plan, digest=hashlib.sha256(text.encode()).hexdigest())


def _path(recipe: Recipe) -> Path:
    return recipe.folder(PLAN_STAGE) / "plan.json"


def saved_plan(recipe: Recipe) -> Plan | None:
    """Return the frozen plan of a run, without the paths of its inputs; None before its first start."""
    path = _path(recipe)
    if not path.exists():
        return None
    try:
        data = read_plan(path)
        if data["format"] not in (1, _GENERATIONS):
            raise ValueError(f"format {data['format']}, this version reads 1 to {PLAN_FORMAT}")
        if unknown := data.keys() - {"format", "shards", "inputs", "units", "generations"}:
            raise ValueError(f"unknown keys {sorted(unknown)}")
        ranges, inputs = tuple(PlannedRange(**planned) for planned in data["units"]), tuple(data["inputs"])
        single = {"inputs": len(inputs), "units": ranges[-1].unit + 1, "shards": data["shards"]}
        generations = tuple(Generation(**each) for each in data.get("generations", [single]))
        return _with_digest(Plan(ranges, data["shards"], "", inputs, generations))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise IntegrityError(
            f"{path}: not a plan as it was written ({error}); remove this file and run `clozeline clean` with "
            "the same inputs and configuration, which writes it again"
        ) from error


def require_input(recipe: Recipe) -> None:
    """Raise ConfigurationError unless the recipe has an input."""
    if not recipe.input:
        raise ConfigurationError("no input: add input=FILE (path, glob, list), or `input:` to the recipe")


def freeze_plan(recipe: Recipe, plan: Plan | None = None) -> Plan:
    """Return the plan (default: that of the recipe), after writing it to `clean/plan.json` if the file differs.

    The list of inputs is frozen by the first start, and grows by `extend=true` only. Other options of an input, or
    other keys of `plan`, make a new plan, and every stage is done again.
    """
    require_input(recipe)
    plan, saved = plan or load_plan(recipe), saved_plan(recipe)
    if saved is None or saved.as_json() != plan.as_json():
        publish_plan(_path(recipe), plan.as_json())
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
        added = {file.source for file in files} - {facts["source"] for facts in saved.inputs}
        if recipe.extend:
            changed = [source for source in changed if source not in added]
            if not changed and not added and len(saved.generations) == 1:
                raise ConfigurationError(
                    f"extend: {_path(recipe)} already has all {len(files):,} inputs: add new files to input, such as "
                    "input=[OLD, NEW], or leave extend out"
                )
        if changed:
            paths = ", ".join(str(entry.path) for entry in recipe.input)
            remedy = "restore them" if recipe.extend else "restore them, add new files by extend=true"
            raise ConfigurationError(
                f"{_path(recipe)}: the inputs are not those this output was started with ({len(changed)} differ in "
                f"name, size or content, first {changed[0]!r}, of input={paths}); a run's inputs are frozen: {remedy}, "
                "or use another output folder"
            )
    return _make_plan(recipe, _split_generations(recipe, files, saved), saved)
