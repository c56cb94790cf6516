"""Write plans of many files compactly: what they share once, and a row of numbers for each file.

A plan with fewer than 1,000 inputs and ranges lists them as objects. With more, its `format` is
3: a row of values for each input, those that repeat by their index in `values`, a single hash where both ends of a
file have the same, and of the ranges only the number in each unit, the labels of their sources, and the bounds of files
that are cut. Both read as the same plain data.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Final

from clozeline.files import parse_json, publish_json, publish_text
from clozeline.sealed_json import seal, unseal

PLAN_FORMAT: Final = 3
"""Newest format: 1 with a single generation of inputs, 2 with several, 3 if it is compact."""
FEWEST: Final = 1000
_REPEATED: Final = ("options", "reader", "splittable", "source_group", "others")
_ENDS: Final = "ends_xxh3"
_DIGITS: Final = 32
_RANGE: Final = ("unit", "source", "source_group", "reader", "start", "end")


def read_plan(path: Path) -> dict[str, Any]:
    """Return the plain data of a `plan.json` of any format, with the keys of format 1 or 2.

    OSError if it cannot be read, ValueError if it is damaged, NewerFormatError if a newer version wrote it.
    """
    return unpack_plan(unseal(parse_json(path.read_text(encoding="utf-8")), path, PLAN_FORMAT))


def publish_plan(path: Path, plain: Mapping[str, Any]) -> None:
    """Write a plan, compactly if it has many inputs."""
    packed = pack_plan(plain)
    if packed is plain:
        publish_json(path, seal(plain))
    else:
        publish_text(path, json.dumps(seal(packed), separators=(",", ":"), sort_keys=True) + "\n")


def pack_plan(plain: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the compact form of a plan with many inputs or units; a plan that has no such form stays as it is."""
    if max(len(plain["inputs"]), len(plain["units"])) < FEWEST:
        return plain
    values: dict[str, int] = {}

    def code(value: Any) -> int:
        return values.setdefault(json.dumps(value, sort_keys=True), len(values))

    columns = [
        {
            "keys": keys,
            "rows": [[_shorten(key, facts[key], code) for key in keys] for facts in rows],
        }
        for keys, rows in groupby(plain["inputs"], sorted)
    ]
    sizes = {facts["source"]: facts["bytes"] for facts in plain["inputs"]}
    counts = [len(list(ranges)) for _, ranges in groupby(plain["units"], lambda planned: planned["unit"])]
    files = [list(ranges) for _, ranges in groupby(plain["units"], lambda planned: planned["source"])]
    cuts = {
        str(number): [planned["start"] for planned in ranges] + [ranges[-1]["end"]]
        for number, ranges in enumerate(files)
        if len(ranges) > 1 or (ranges[0]["start"], ranges[0]["end"]) != (0, sizes[ranges[0]["source"]])
    }
    groups = [
        [code(group), len(list(ranges))] for group, ranges in groupby(ranges[0]["source_group"] for ranges in files)
    ]
    packed = {
        **{key: value for key, value in plain.items() if key not in ("inputs", "units")},
        "format": PLAN_FORMAT, "inputs": columns, "units": {"ranges": counts, "cuts": cuts, "groups": groups},
        "values": [json.loads(value) for value in values],
    }  # fmt: skip
    return packed if unpack_plan(packed) == plain else plain


def _shorten(key: str, value: Any, code: Callable[[Any], int]) -> Any:
    """Return the index of a value that repeats, and the hashes of a file's ends once if they are equal."""
    if key == _ENDS and value == value[:_DIGITS] * 2:
        return value[:_DIGITS]
    return code(value) if key in _REPEATED else value


def _restore(key: str, value: Any, values: Sequence[Any]) -> Any:
    if key == _ENDS and len(value) == _DIGITS:
        return value * 2
    return values[value] if key in _REPEATED else value


def unpack_plan(data: Any) -> dict[str, Any]:
    """Return a plan with its inputs and ranges as objects; ValueError, KeyError or TypeError if it is none."""
    if not isinstance(data, Mapping):
        raise TypeError(f"expected a mapping, got {type(data).__name__}")
    if data.get("format") != PLAN_FORMAT:
        return dict(data)
    values, packed = data["values"], data["units"]
    inputs = [
        {key: _restore(key, value, values) for key, value in zip(part["keys"], row, strict=True)}
        for part in data["inputs"]
        for row in part["rows"]
    ]
    units = [unit for unit, count in enumerate(packed["ranges"]) for _ in range(count)]
    groups = [values[group] for group, count in packed["groups"] for _ in range(count)]
    ranges, number = [], 0
    for index, (facts, group) in enumerate(zip(inputs, groups, strict=True)):
        bounds: Sequence[int] = packed["cuts"].get(str(index), (0, facts["bytes"]))
        for start, end in pairwise(bounds):
            row = units[number], facts["source"], group, facts["reader"], start, end
            ranges.append(dict(zip(_RANGE, row, strict=True)))
            number += 1
    if number != len(units):
        raise ValueError(f"{number} ranges, expected {len(units)}")
    rest = {key: value for key, value in data.items() if key != "values"}
    return {**rest, "format": 2 if "generations" in data else 1, "inputs": inputs, "units": ranges}
