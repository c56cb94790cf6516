"""The plan: units, names and digests that do not depend on where the inputs lie."""

import json
import os
import shutil
from itertools import chain, pairwise

import pytest

from clozeline.checksummed_json import add_checksum
from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError, IntegrityError, StorageError
from clozeline.pipeline.execution import plan as plans
from clozeline.pipeline.execution.plan import load_plan, store_plan
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
def test_units_tile_each_file_in_order(tmp_path, seed):
    """A file of more bytes than a unit is cut, and its ranges share no unit."""
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

    for unit in plan.units:
        total = sum(planned.end - planned.start for planned in unit)
        assert total <= most
        assert len(unit) == 1 or all(size[planned.source] <= most for planned in unit)


def sources_of(plan):
    """Return the sources of each unit, by its name."""
    units = zip(plan.names, plan.units, strict=True)
    return {name: [planned.source for planned in unit] for name, unit in units}


@pytest.mark.parametrize("count", [20, 900])
def test_an_added_file_changes_the_unit_next_to_it_alone(tmp_path, count):
    """Few files have a unit each, many share units; a unit keeps its name."""
    for number in range(count):
        rows(tmp_path / "in", f"{number:04d}.jsonl")
    recipe = recipe_for(str(tmp_path / "in"), tmp_path / "out")
    before = sources_of(load_plan(recipe))

    assert len(before) == 20 if count == 20 else 30 < len(before) < 130

    for number in (3, 11, 17):
        rows(tmp_path / "in", f"{number:04d}b.jsonl")
        after = sources_of(load_plan(recipe))
        changed = [name for name in before if after.get(name) != before[name]]
        assert len(changed) <= (count > 20)
        listed = list(chain.from_iterable(after.values()))
        assert listed == sorted(listed)
        before = after


def test_the_plan_follows_inputs_and_options_and_not_places(tmp_path):
    def content(source, **keys):
        stored = load_plan(recipe_for(source, tmp_path / "out", **keys)).as_json()
        for each in stored["inputs"]:  # times differ
            del each["state"], each["identity"]
        return json.dumps(stored)

    first, moved = (str(rows(tmp_path / name, "a.jsonl")) for name in ("one", "two"))
    same = content(first)

    assert content(moved) == content([{"path": f"{first}/*.jsonl"}]) == same

    others = [
        content({"path": first, "source": "b"}),
        content({"path": first, "text_key": "body"}),
        content({"path": first, "language": "en"}),
        content(first, plan={"unit_bytes": 4096}),
        content(first, plan={"shard_bytes": 4096}),
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


def test_changes_since_the_last_start_are_counted(tmp_path):
    source = rows(tmp_path / "in", "a.jsonl", "c.jsonl")
    recipe = recipe_for(str(source), tmp_path / "out")

    assert load_plan(recipe).changes == {}
    assert store_plan(recipe).as_json() == load_plan(recipe_for([], tmp_path / "out")).as_json()

    rows(source, "b.jsonl")
    (source / "a.jsonl").unlink()
    (source / "c.jsonl").write_text('{"text": "other"}\n')

    assert load_plan(recipe).changes == {"new": 1, "changed": 1, "removed": 1}

    store_plan(recipe)

    assert load_plan(recipe).changes == {"new": 0, "changed": 0, "removed": 0}


def test_mistakes_are_named(tmp_path):
    rows(tmp_path / "in", "a.jsonl")
    with pytest.raises(ConfigurationError, match="no file matches"):
        load_plan(recipe_for(str(tmp_path / "in" / "*.warc"), tmp_path / "out"))
    with pytest.raises(ConfigurationError, match="is listed twice"):
        load_plan(
            recipe_for([str(tmp_path / "in"), str(tmp_path / "in" / "a.jsonl")], tmp_path / "out")
        )

    with pytest.raises(ConfigurationError, match="no input: add"):
        store_plan(recipe_for([], tmp_path / "out"))
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
def test_an_edit_is_read_again_wherever_it_is(started, place):
    path, recipe = started
    edit(path, place)

    assert start(recipe) == [False]
    assert start(recipe) == [True]


def test_an_edit_that_keeps_the_time_is_found_by_verify(started):
    path, recipe = started
    edit(path, 100_020, same_time=True)
    assert start(recipe) == [True]
    assert start(recipe, verify=True) == [False]
    assert start(recipe) == [True]


def test_a_file_that_grows_has_its_new_size_after_verify(started):
    path, recipe = started
    with path.open("a") as file:
        file.write('{"text": "one more row"}\n')
    start(recipe, verify=True)

    assert load_plan(recipe).bytes == path.stat().st_size


def test_a_copied_input_is_kept_if_its_content_is_compared(started, tmp_path):
    path, _ = started
    other = tmp_path / "moved" / "a.jsonl"
    other.parent.mkdir()
    shutil.copyfile(path, other)
    moved = recipe_for(str(other), tmp_path / "out", plan={"unit_bytes": 100_000})

    assert start(moved, verify=True) == [True]
    assert start(moved) == [True]

    os.utime(other, ns=(5, 5))

    assert start(moved) == [False]


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

    # 126,000 bytes: ceil(126,000 / 4,096) = 31 shards, rounded up to a power of two
    assert (len(load(1000).units), load(1000).shards) == (33, 32)  # as with 4,096 bytes given
    assert load(1000).as_json() == load(1000, unit_bytes=4096, shard_bytes=4096).as_json()
    # a tenth of the bytes, 12,600, rounded up to 16,384
    assert (len(load(10).units), load(10).shards) == (9, 8)
    assert (len(load(10, unit_bytes=4096).units), load(10, unit_bytes=4096).shards) == (33, 8)

    monkeypatch.setattr(plans, "MOST_PIECES", 71)

    with pytest.raises(
        ConfigurationError,
        match=r"9 units and 8 shards make 72 pieces .* at most 71: remove plan",
    ):
        load(10)
