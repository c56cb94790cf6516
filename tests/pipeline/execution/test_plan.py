"""The plan: units, names and digests that do not depend on where the inputs lie."""

import json
import os
import shutil
from itertools import pairwise

import pytest

from clozeline.checksummed_json import add_checksum
from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError, IntegrityError, StorageError
from clozeline.pipeline.execution import plan as plans
from clozeline.pipeline.execution.plan import freeze_plan, load_plan
from clozeline.pipeline.execution.progress import Progress
from clozeline.pipeline.execution.runner import run_recipe
from clozeline.pipeline.recipe import Recipe
from clozeline.seeding import hash64
from tests.pipeline.clean.cleaning import recipe_for


def rows(folder, *names):
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{{"text": "{number}"}}\n' * 1000)
    return folder


@pytest.mark.parametrize("seed", range(5))
def test_units_tile_each_file_in_order_and_small_files_fill_them(tmp_path, seed):
    """A file of more bytes than a unit is cut, and its ranges share no unit.

    The others share as few as they can.
    """
    most = 5000
    size = {}
    (tmp_path / "in/a").mkdir(parents=True)

    for number in range(40):
        name = f"{'a/' * (number % 2)}{number:02d}.jsonl"
        size[f"default/{name}"] = 14 * (
            hash64(seed, number) % 900 * (hash64(seed, number, 1) % 3 > 0)
        )
        (tmp_path / "in" / name).write_text('{"text": "a"}\n' * (size[f"default/{name}"] // 14))

    plan = load_plan(
        recipe_for(f"{tmp_path}/in/**/*.jsonl", tmp_path / "out", plan={"unit_bytes": most})
    )

    assert [planned.unit for planned in plan.ranges] == [
        n for n, unit in enumerate(plan.units) for _ in unit
    ]
    assert [*dict.fromkeys(planned.source for planned in plan.ranges)] == sorted(size)

    for source, bytes_of in size.items():
        mine = [planned for planned in plan.ranges if planned.source == source]
        assert len(mine) == max(1, -(-bytes_of // most))
        assert (mine[0].start, mine[-1].end) == (0, bytes_of)
        assert all(before.end == after.start for before, after in pairwise(mine))

    for unit, following in pairwise(plan.units):
        total = sum(planned.end - planned.start for planned in unit)
        cut = any(size[planned.source] > most for planned in (*unit, following[0]))
        assert total <= most
        assert cut or total + size[following[0].source] > most
        assert len(unit) == 1 or all(size[planned.source] <= most for planned in unit)


def test_the_digest_follows_inputs_and_options_and_not_places(tmp_path):
    def digest(source, **keys):
        return load_plan(recipe_for(source, tmp_path / "out", **keys)).digest

    first, moved = (str(rows(tmp_path / name, "a.jsonl")) for name in ("one", "two"))
    same = digest(first)

    assert digest(moved) == digest([{"path": f"{first}/*.jsonl"}]) == same

    others = [
        digest({"path": first, "source": "b"}),
        digest({"path": first, "text_key": "body"}),
        digest({"path": first, "language": "en"}),
        digest(first, plan={"unit_bytes": 4096}),
        digest(first, plan={"shard_bytes": 4096}),
    ]

    assert len({same, *others}) == 6


def test_names_of_any_bytes_are_unique_and_printable(tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("a%b.txt", "a\nb.txt", "aé.txt", b"a\xff.txt".decode("utf-8", "surrogateescape")):
        (tmp_path / "in" / name).write_text("x")
    plan = load_plan(recipe_for(str(tmp_path / "in"), tmp_path / "out"))

    assert {planned.source for planned in plan.ranges} == {
        "default/a%25b.txt",
        "default/a%0Ab.txt",
        "default/aé.txt",
        "default/a%FF.txt",
    }


def test_the_first_start_freezes_the_inputs(tmp_path):
    source = rows(tmp_path / "in", "a.jsonl")
    recipe = recipe_for(str(source), tmp_path / "out")

    assert freeze_plan(recipe).digest == load_plan(recipe_for([], tmp_path / "out")).digest

    rows(tmp_path / "in", "a.jsonl", "b.jsonl")

    with pytest.raises(
        ConfigurationError, match=r"1 differ in name, size or content, first 'default/b\.jsonl'"
    ):
        load_plan(recipe)


def test_mistakes_are_named(tmp_path):
    rows(tmp_path / "in", "a.jsonl")
    with pytest.raises(ConfigurationError, match="no file matches"):
        load_plan(recipe_for(str(tmp_path / "in" / "*.warc"), tmp_path / "out"))
    with pytest.raises(ConfigurationError, match="is listed twice"):
        load_plan(
            recipe_for([str(tmp_path / "in"), str(tmp_path / "in" / "a.jsonl")], tmp_path / "out")
        )

    with pytest.raises(ConfigurationError, match="no input: add"):
        freeze_plan(recipe_for([], tmp_path / "out"))
    with pytest.raises(StorageError, match=r"run `clozeline clean` first"):
        load_plan(recipe_for([], tmp_path / "out"))
    path = tmp_path / "out" / "clean" / "plan.json"
    path.parent.mkdir(parents=True)

    for content, message in (
        (json.dumps(add_checksum({"format": 0})), "the plan is damaged"),
        ("{}", "the plan is damaged"),
    ):
        path.write_text(content)
        with pytest.raises(IntegrityError, match=message):
            load_plan(recipe_for([], tmp_path / "out"))


@pytest.fixture
def started(tmp_path):
    """An input of more than both ends of a file that the plan holds, and a recipe that has run
    once."""
    path = tmp_path / "in" / "a.jsonl"
    path.parent.mkdir()
    path.write_text(
        "".join(
            json.dumps({"text": f"row {row:06d} of the first start"}) + "\n" for row in range(4000)
        )
    )

    recipe = recipe_for(str(path), tmp_path / "out", plan={"unit_bytes": 100_000})

    assert start(recipe) == [False]

    return path, recipe


def start(recipe, *, verify=False):
    summaries = []
    run_recipe(recipe, None, Progress(), summaries, verify=verify)
    return [summary.skipped for summary in summaries]


def edit(path, place, *, same_time=False):
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


def test_an_edit_that_keeps_the_time_is_found_by_verify(started):
    path, recipe = started
    edit(path, 100_020, same_time=True)
    assert start(recipe) == [True]
    with pytest.raises(ConfigurationError, match="differ in name, size or content"):
        start(recipe, verify=True)


def test_a_touched_and_a_copied_input_go_on_and_the_plan_holds_the_new_time(started, tmp_path):
    path, recipe = started
    digest = freeze_plan(recipe).digest
    os.utime(path, ns=(5, 5))

    assert start(recipe) == [True]
    assert freeze_plan(recipe).digest == digest
    assert load_plan(recipe).states["default/a.jsonl"].version == 5

    other = tmp_path / "moved" / "a.jsonl"
    other.parent.mkdir()
    shutil.copyfile(path, other)

    assert start(
        recipe_for(str(other), tmp_path / "out", plan={"unit_bytes": 100_000}), verify=True
    ) == [True]


def test_units_and_shards_grow_with_the_corpus(tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / f"in/{number}.jsonl").write_text('{"text": "a"}\n' * 3000)  # 42,000 bytes

    def load(most, **sizes):
        monkeypatch.setattr(plans, "LEAST_BYTES", 4096)
        monkeypatch.setattr(plans, "MOST_UNITS", most)
        plain = {
            "corpus": "c",
            "input": [str(tmp_path / "in")],
            "output": str(tmp_path / "out"),
            "clean": {},
        }

        return load_plan(validate(Recipe, {**plain, "plan": sizes}, "test"))

    assert (len(load(1000).units), load(1000).shards) == (33, 31)  # as with 4,096 bytes given
    assert load(1000).digest == load(1000, unit_bytes=4096, shard_bytes=4096).digest
    assert (len(load(10).units), load(10).shards) == (12, 10)
    assert (len(load(10, unit_bytes=4096).units), load(10, unit_bytes=4096).shards) == (33, 10)

    monkeypatch.setattr(plans, "MOST_PIECES", 119)

    with pytest.raises(
        ConfigurationError,
        match=r"12 units and 10 shards make 120 pieces .* at most 119: remove plan",
    ):
        load(10)
