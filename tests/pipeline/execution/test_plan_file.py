"""Compact plans hold what plans of objects hold, and plans of earlier versions are read and kept."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.errors import IntegrityError
from clozeline.files import publish_json
from clozeline.pipeline.execution import plan_file
from clozeline.pipeline.execution.plan import Plan, freeze_plan, load_plan, saved_plan
from clozeline.pipeline.execution.plan_file import pack_plan, read_plan, unpack_plan
from clozeline.pipeline.recipe import Recipe
from clozeline.sealed_json import seal
from tests.pipeline.clean.cleaning import recipe_for


@st.composite
def plain_plans(draw: st.DrawFn) -> dict[str, Any]:
    """Plans of files that are complete, cut, empty, of several sources and generations, some with further facts."""
    inputs, units, unit = [], [], -1
    for number in range(draw(st.integers(1, 12))):
        ends = draw(st.sampled_from(["a" * 32, "b" * 32])) + "a" * 32
        facts = {"source": f"s/{number}", "bytes": draw(st.integers(0, 50)), "reader": draw(st.sampled_from("tj")),
                 "options": {"text_key": draw(st.sampled_from("ab"))}, "splittable": draw(st.booleans()),
                 "ends_xxh3": ends, "mtime_ns": number}  # fmt: skip
        if draw(st.booleans()):
            facts["others"] = {"target_path": {"bytes": number}}
        inputs.append(facts)
        cuts = sorted(draw(st.sets(st.integers(1, 49), max_size=2)))
        bounds = [0, *(cut for cut in cuts if cut < facts["bytes"]), facts["bytes"]]
        group = draw(st.sampled_from(["crawl", "books"]))
        for start, end in pairwise(bounds):
            unit += 1 if unit < 0 or draw(st.booleans()) else 0
            units.append({"unit": unit, "source": facts["source"], "source_group": group, "reader": facts["reader"],
                          "start": start, "end": end})  # fmt: skip
    plain = {"format": 1, "shards": 3, "inputs": inputs, "units": units}
    generations = [{"inputs": 1, "units": 1, "shards": 1}, {"inputs": len(inputs), "units": unit + 1, "shards": 3}]
    return {**plain, "format": 2, "generations": generations} if draw(st.booleans()) else plain


@settings(max_examples=100)
@given(plain_plans())
def test_a_packed_plan_holds_the_same(plain: dict[str, Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_file, "FEWEST", 1)
        packed = pack_plan(plain)
    assert packed["format"] == 3
    assert unpack_plan(json.loads(json.dumps(packed))) == plain
    assert pack_plan(plain) is plain, "few files"


def test_the_hash_of_a_small_file_is_packed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ends of a small file are the same bytes; a packed plan of an earlier version has their hash twice."""
    monkeypatch.setattr(plan_file, "FEWEST", 1)
    ends, facts = ["a" * 64, "a" * 32 + "b" * 32], {"bytes": 5, "reader": "t"}
    inputs = [{**facts, "source": f"s/{number}", "ends_xxh3": both} for number, both in enumerate(ends)]
    units = [{"unit": 0, "source": f"s/{number}", "source_group": "g", "reader": "t", "start": 0, "end": 5}
             for number in range(2)]  # fmt: skip
    plain = {"format": 1, "shards": 1, "inputs": inputs, "units": units}
    packed = pack_plan(plain)
    (part,) = packed["inputs"]
    column = part["keys"].index("ends_xxh3")
    assert [row[column] for row in part["rows"]] == ["a" * 32, ends[1]]
    part["rows"][0][column] = ends[0]
    assert unpack_plan(packed) == plain


def many_files(folder: Path, count: int) -> Recipe:
    folder.mkdir()
    for number in range(count):
        (folder / f"{number:05d}.txt").write_text(f"text {number}")
    return recipe_for(str(folder), folder.parent / "out")


def test_a_plan_of_many_files_takes_a_quarter_and_reads_the_same(tmp_path: Path) -> None:
    recipe = many_files(tmp_path / "in", 1200)
    plan = freeze_plan(recipe)
    path = tmp_path / "out/clean/plan.json"
    saved = saved_plan(recipe)
    assert saved is not None
    assert (saved.digest, saved.as_json()) == (plan.digest, plan.as_json())
    plain = json.dumps(seal(plan.as_json()), indent=1)
    assert path.stat().st_size < 0.26 * len(plain)
    assert load_plan(recipe).digest == plan.digest
    path.write_text(path.read_text().replace('"00007', '"00008', 1).replace("00007.txt", "00008.txt", 1))
    with pytest.raises(IntegrityError, match="not a plan as it was written"):
        saved_plan(recipe)


def test_a_large_plan_of_an_earlier_version_is_read_and_stays(tmp_path: Path) -> None:
    recipe = many_files(tmp_path / "in", 1100)
    plan = load_plan(recipe)
    path = tmp_path / "out/clean/plan.json"
    publish_json(path, seal(plan.as_json()))
    before = path.read_bytes()
    assert freeze_plan(recipe).digest == plan.digest
    assert path.read_bytes() == before
    assert read_plan(path)["format"] == 1


def test_a_start_computes_its_plan_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = many_files(tmp_path / "in", 1100)
    freeze_plan(recipe)
    computed = []
    as_json = Plan.as_json
    monkeypatch.setattr(Plan, "as_json", lambda self: (computed.append(self), as_json(self))[1])
    assert len(load_plan(recipe).inputs) == 1100
    assert len(computed) == 2  # the saved one, and the present one


@pytest.mark.parametrize("content", [None, [], 7, "plan"])
def test_another_type_is_no_plan(content: object) -> None:
    with pytest.raises(TypeError, match="expected a mapping"):
        unpack_plan(content)
