"""The plan: input files cut into units, and the number of shards, fixed before any task starts.

Everything later (names, seeds, accounting) depends on units, never on tasks. The plan holds no absolute path and no
time, so moving the inputs keeps every uid.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from pipeline.config import to_plain
from pipeline.errors import ConfigurationError, IntegrityError, StorageError
from pipeline.files import publish_json
from pipeline.readers import check_options, detect
from pipeline.recipe import InputEntry, Recipe

__all__ = ["PLAN_STAGE", "Plan", "PlannedUnit", "freeze_plan", "load_plan", "source_files"]

_FORMAT: Final = 1
_FIRST_OPTIONS: Final = {"columns": None, "target_path": None, "text_key": "text", "url_key": "url"}
"""Options that plans of this format hold for every input, whatever its reader; others are held where they are given."""
PLAN_STAGE: Final = "clean"
"""The stage that reads the inputs, so its first start freezes the plan."""


@dataclass(frozen=True, slots=True)
class PlannedUnit:
    """A range of one input file. `path` is its present place; outputs name it by `source` alone."""

    unit: int
    source: str
    source_group: str
    reader: str
    start: int
    end: int
    entry: InputEntry | None = None
    path: Path | None = None


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One input file with the entry it belongs to."""

    source: str
    path: Path
    bytes: int
    entry: InputEntry


@dataclass(frozen=True)
class Plan:
    """Units in order of source name and offset, and the number of shards of every later set."""

    units: tuple[PlannedUnit, ...]
    shards: int
    digest: str
    inputs: tuple[dict[str, Any], ...]

    def as_json(self) -> dict[str, Any]:
        """Return the content of `clean/plan.json`."""
        units = [
            {name: value for name, value in asdict(unit).items() if name not in ("entry", "path")}
            for unit in self.units
        ]
        return {"format": _FORMAT, "shards": self.shards, "inputs": list(self.inputs), "units": units}


def source_files(entries: Sequence[InputEntry]) -> list[SourceFile]:
    """Expand inputs to files, sorted by source name.

    Raises:
        ConfigurationError: a path matches no file, or two files have one source name.
    """
    found: dict[str, SourceFile] = {}
    for entry in entries:
        for pattern in [entry.path] if isinstance(entry.path, str) else entry.path:
            for file in _expand(pattern, entry):
                if file.source in found:
                    raise ConfigurationError(
                        f"input {pattern!r}: {file.path} is named twice (as {file.source!r}); "
                        "give each file once, or different `source` labels"
                    )
                found[file.source] = file
    return sorted(found.values(), key=lambda file: file.source.encode())


def _expand(pattern: str, entry: InputEntry) -> Iterator[SourceFile]:
    root = _root(pattern)
    if Path(pattern).is_dir():
        root, matches = Path(pattern), [str(path) for path in sorted(Path(pattern).rglob("*"))]
    else:
        matches = [pattern] if Path(pattern).exists() else sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207
    files = [Path(match) for match in matches if Path(match).is_file()]
    if not files:
        raise ConfigurationError(f"input {pattern!r}: no such file, and no file matches it as a pattern")
    for path in files:
        name = _escape(os.fsencode(path.relative_to(root).as_posix()))
        yield SourceFile(f"{entry.source}/{name}", path, path.stat().st_size, entry)


def _root(pattern: str) -> Path:
    """Return the directory before the first wildcard, or that of the file."""
    parts = Path(pattern).parts
    fixed: list[str] = []
    for part in parts[:-1]:
        if glob.has_magic(part):
            break
        fixed.append(part)
    return Path(*fixed) if fixed else Path()


def _escape(raw: bytes) -> str:
    """Return UTF-8 text, with `%`, control bytes and bytes that are not UTF-8 as %XX: unique and printable."""
    text = raw.decode("utf-8", "surrogateescape")
    pieces = [
        f"%{ord(char) & 0xFF:02X}" if char == "%" or ord(char) < 32 or 0xDC80 <= ord(char) <= 0xDCFF else char
        for char in text
    ]
    return "".join(pieces)


def _cut(file: SourceFile, reader: str, splittable: bool, unit_bytes: int) -> list[PlannedUnit]:
    pieces = max(1, -(-file.bytes // unit_bytes)) if splittable else 1
    bounds = [file.bytes * i // pieces for i in range(pieces + 1)]
    return [
        PlannedUnit(0, file.source, file.entry.source, reader, start, end, file.entry, file.path)
        for start, end in pairwise(bounds)
    ]


def _make_plan(recipe: Recipe, files: Sequence[SourceFile], saved: Plan | None) -> Plan:
    """Cut the files; those that the saved plan holds with the same options are not opened again."""
    known = {} if saved is None else {facts["source"]: facts for facts in saved.inputs}
    units: list[PlannedUnit] = []
    inputs: list[dict[str, Any]] = []
    for file in files:
        facts = _facts(file, known.get(file.source))
        inputs.append(facts)
        units += _cut(file, facts["reader"], facts["splittable"], recipe.plan_options.unit_bytes)
    _check_inputs(zip(files, inputs, strict=True))
    numbered = tuple(replace(unit, unit=number) for number, unit in enumerate(units))
    shards = max(1, -(-sum(file.bytes for file in files) // recipe.plan_options.shard_bytes))
    return _with_digest(Plan(numbered, shards, "", tuple(inputs)))


def _check_inputs(found: Iterable[tuple[SourceFile, dict[str, Any]]]) -> None:
    """Check that each option of an input is one of a reader of its files."""
    readers: dict[int, tuple[InputEntry, set[str]]] = {}
    for file, facts in found:
        readers.setdefault(id(file.entry), (file.entry, set()))[1].add(facts["reader"])
    for entry, names in readers.values():
        try:
            check_options(entry.options, names)
        except ConfigurationError as error:
            raise ConfigurationError(f"input {entry.path!r}: {error}") from error


def _facts(file: SourceFile, known: dict[str, Any] | None) -> dict[str, Any]:
    plain = {name: value for name, value in to_plain(file.entry).items() if name not in ("path", "source")}
    options = {**_FIRST_OPTIONS, **plain}
    if known is not None and known["options"] == options:
        return known
    reader, splittable = detect(file.path, file.entry.reader)
    found = {"source": file.source, "bytes": file.bytes, "options": options}
    return {**found, "reader": reader, "splittable": splittable}


def _with_digest(plan: Plan) -> Plan:
    text = json.dumps(plan.as_json(), sort_keys=True, separators=(",", ":"))
    return replace(plan, digest=hashlib.sha256(text.encode()).hexdigest())


def _path(recipe: Recipe) -> Path:
    return recipe.folder(PLAN_STAGE) / "plan.json"


def _read(recipe: Recipe) -> Plan | None:
    path = _path(recipe)
    if not path.exists():
        return None
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != _FORMAT:
            raise IntegrityError(f"{path}: format {data['format']}, this version reads {_FORMAT}")
        units = tuple(PlannedUnit(**unit) for unit in data["units"])
        return _with_digest(Plan(units, data["shards"], "", tuple(data["inputs"])))
    except (ValueError, KeyError, TypeError) as error:
        raise IntegrityError(f"{path}: not a plan ({error}); remove the folder to start again") from error


def freeze_plan(recipe: Recipe) -> Plan:
    """Return the plan, after writing it as `clean/plan.json` where the file does not hold it yet.

    The list of inputs is frozen by the first start. Other options of an input, or other keys of `plan`, make a new
    plan, and every stage is done again.

    Raises:
        ConfigurationError: there is no input, or names or sizes of inputs differ from the first start.
    """
    if not recipe.input:
        raise ConfigurationError("no input: add input=FILE (path, glob, list), or `input:` to the recipe")
    plan, saved = load_plan(recipe), _read(recipe)
    if saved is None or saved.digest != plan.digest:
        publish_json(_path(recipe), plan.as_json())
    return plan


def _check_unchanged(recipe: Recipe, saved: Plan, files: Sequence[SourceFile]) -> None:
    before = {facts["source"]: facts["bytes"] for facts in saved.inputs}
    after = {file.source: file.bytes for file in files}
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    if changed:
        raise ConfigurationError(
            f"{_path(recipe)}: the inputs are not those this output was started with ({len(changed)} differ, first "
            f"{changed[0]!r}); a run's inputs are frozen: use another output folder"
        )


def load_plan(recipe: Recipe) -> Plan:
    """Return the plan of the recipe's `input`, with the paths of this machine; without `input` the frozen one."""
    saved = _read(recipe)
    if recipe.input:
        files = source_files(recipe.input)
        if saved is not None:
            _check_unchanged(recipe, saved, files)
        return _make_plan(recipe, files, saved)
    if saved is None:
        raise StorageError(f"{_path(recipe)} is missing: run `python -m pipeline.clean` first")
    return saved
