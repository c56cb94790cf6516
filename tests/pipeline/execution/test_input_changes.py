"""Inputs that are edited, touched, copied or replaced between two starts of one run."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import xxhash

from clozeline.errors import ConfigurationError
from clozeline.pipeline.execution.input_changes import fingerprint_file, range_hash
from clozeline.pipeline.execution.plan import freeze_plan, load_plan
from clozeline.pipeline.execution.progress import Progress
from clozeline.pipeline.execution.runner import run_recipe
from clozeline.pipeline.execution.stages import StageSummary
from tests.pipeline.clean.cleaning import recipe_for

ROWS = 4000
"""Rows of 50 bytes: more than both ends of a file that the plan holds."""


@pytest.fixture
def started(tmp_path):
    """An input and a recipe that has run once."""
    path = tmp_path / "in" / "a.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps({"text": f"row {row:06d} of the first start"}) + "\n" for row in range(ROWS)))
    recipe = recipe_for(str(path), tmp_path / "out", plan={"unit_bytes": 100_000})
    assert start(recipe) == [False]
    return path, recipe


def start(recipe, *, verify: bool = False) -> list[bool]:
    summaries: list[StageSummary] = []
    run_recipe(recipe, None, Progress(), summaries, verify=verify)
    return [summary.skipped for summary in summaries]


def edit(path: Path, place: int, *, same_time: bool = False) -> None:
    before = path.stat()
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    moved = 0 if same_time else 1_000_000_007
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + moved))


@pytest.mark.parametrize("place", [20, 100_020, -20])
def test_an_edit_of_the_same_size_is_refused_wherever_it_is(started, place):
    path, recipe = started
    edit(path, place)
    with pytest.raises(
        ConfigurationError, match=r"1 differ in .* content, first 'default/a\.jsonl'.*restore"
    ) as refused:
        start(recipe)
    assert f"of input={path.parent}" in str(refused.value), "two folders may hold files of one name"
    edit(path, place)
    assert start(recipe) == [True]


@pytest.mark.parametrize("place", [20, 100_020])
def test_an_edit_that_keeps_the_time_is_found_by_verify(started, place):
    path, recipe = started
    edit(path, place, same_time=True)
    assert start(recipe) == [True]
    with pytest.raises(ConfigurationError, match="differ in name, size or content"):
        start(recipe, verify=True)


def test_a_touched_and_a_copied_input_go_on_and_the_plan_holds_the_new_time(started, tmp_path):
    path, recipe = started
    os.utime(path, ns=(5, 5))
    assert start(recipe) == [True]
    assert load_plan(recipe).inputs[0]["mtime_ns"] == 5
    other = tmp_path / "moved" / "a.jsonl"
    other.parent.mkdir()
    shutil.copyfile(path, other)
    assert start(recipe_for(str(other), tmp_path / "out", plan={"unit_bytes": 100_000}), verify=True) == [True]


def test_the_digest_does_not_depend_on_the_time(started, tmp_path):
    path, recipe = started
    first = freeze_plan(recipe).digest
    os.utime(path, ns=(9, 9))
    assert freeze_plan(recipe).digest == load_plan(recipe_for([], tmp_path / "out")).digest == first


def test_ends_and_ranges_are_hashed_as_they_are(tmp_path):
    content = bytes(range(256)) * 1000
    path = tmp_path / "a"
    path.write_bytes(content)
    assert range_hash(path, 100, 2000) == xxhash.xxh3_128_hexdigest(content[100:2000])
    assert range_hash(path, 255_000, 300_000) == xxhash.xxh3_128_hexdigest(content[255_000:])
    ends = xxhash.xxh3_128_hexdigest(content[:65536]) + xxhash.xxh3_128_hexdigest(content[-65536:])
    assert fingerprint_file(path, len(content))["ends_xxh3"] == ends


@pytest.fixture
def aligned(tmp_path):
    """Two files of aligned lines and a recipe that has read them once."""
    folder = tmp_path / "in"
    folder.mkdir()
    sides = [folder / "pairs.en", folder / "pairs.de"]
    for path in sides:
        path.write_text("".join(f"row {row:06d} of the file {path.suffix}\n" for row in range(ROWS)))
    entry = {"path": str(sides[0]), "reader": "moses", "target_path": str(sides[1])}
    recipe = recipe_for(entry, tmp_path / "out")
    assert start(recipe) == [False]
    assert start(recipe, verify=True) == [True]
    return sides[1], recipe


@pytest.mark.parametrize("place", [5, 70_005, -5], ids=["first", "middle", "last"])
def test_an_edit_of_the_other_side_of_pairs_is_refused_wherever_it_is(aligned, place):
    path, recipe = aligned
    edit(path, place)
    with pytest.raises(ConfigurationError, match=r"1 differ in .* first 'default/pairs\.en target_path'.*restore"):
        start(recipe)
    edit(path, place)
    assert start(recipe) == [True]


def test_an_edit_of_the_other_side_that_keeps_the_time_is_found_by_verify(aligned):
    path, recipe = aligned
    edit(path, 70_005, same_time=True)
    assert start(recipe) == [True]
    with pytest.raises(ConfigurationError, match="differ in name, size or content"):
        start(recipe, verify=True)


def test_another_size_or_place_of_the_other_side(aligned, tmp_path):
    path, recipe = aligned
    os.utime(path, ns=(5, 5))
    assert start(recipe) == [True]
    assert load_plan(recipe).inputs[0]["others"]["target_path"]["mtime_ns"] == 5
    moved = path.rename(tmp_path / "moved.de")
    with pytest.raises(ConfigurationError, match="target_path"):
        start(recipe)
    entry = {"path": str(tmp_path / "in" / "pairs.en"), "reader": "moses", "target_path": str(moved)}
    assert start(recipe_for(entry, tmp_path / "out")) == [False], "another option of the input is another plan"
