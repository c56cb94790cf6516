"""The plan: units, names and digests that do not depend on where the inputs lie."""

import gzip
import json
import re
import subprocess
from itertools import chain, pairwise

import pytest
import zstandard

from clozeline.checksummed_json import add_checksum
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.pipeline.execution import plan as plans
from clozeline.pipeline.execution.plan import load_plan
from clozeline.pipeline.execution.runner import plan_view, preview_stages
from clozeline.pipeline.execution.unit_record import KnownRecords
from clozeline.seeding import hash64
from tests.pipeline.captures import read
from tests.pipeline.clean.cleaning import recipe_for
from tests.refusals import refused


def write(folder, rows, *names):
    folder.mkdir(exist_ok=True)
    for number, name in enumerate(names):
        (folder / name).write_text(f'{{"text": "{number % 10}"}}\n' * rows)  # 14 bytes a row
    return str(folder)


@pytest.mark.parametrize("seed", range(3))
def test_units_tile_each_file_in_order(tmp_path, seed):
    """A file of more bytes than a unit is cut, and its ranges share no unit."""
    most = 5000
    size = {}
    for number in range(40):
        rows = hash64(seed, number) % 900 * (hash64(seed, number, 1) % 3 > 0)
        size[f"default/{number:02d}.jsonl"] = 14 * rows
        source = write(tmp_path / "in", rows, f"{number:02d}.jsonl")
    plan = load_plan(recipe_for(source, tmp_path / "out", plan={"unit_bytes": most}))

    assert [each.unit for each in plan.ranges] == [
        n for n, unit in enumerate(plan.units) for _ in unit
    ]
    assert [*dict.fromkeys(planned.source for planned in plan.ranges)] == sorted(size)
    assert len(set(plan.names)) == len(plan.units)

    for source, bytes_of in size.items():
        mine = [planned for planned in plan.ranges if planned.source == source]
        assert len(mine) == max(1, -(-bytes_of // most))
        assert (mine[0].start, mine[-1].end) == (0, bytes_of)
        assert all(before.end == after.start for before, after in pairwise(mine))

    for unit in plan.units:
        assert sum(planned.end - planned.start for planned in unit) <= most
        assert len(unit) == 1 or all(size[planned.source] <= most for planned in unit)


def compress_members(compress, between):
    """Return lines, their file of members that cut lines, and the locator of each line.

    One line goes through five members, one member is empty, `between` is between two others, and
    the last line has no end. Each line has the start of a gzip member.
    """
    lines = [f"{number}: {hash64(number):x} \x1f‹\x08\x04ÿÿ" for number in range(3000)]
    content = "\n".join(lines).encode("cp1252")
    cuts = [0, 7_001, 7_001, *(range(30_001, 30_006)), 60_003, len(content)]
    cuts = sorted([*cuts, *(content.index(b"\n", at) + 1 for at in (20_000, 45_000, 70_000))])
    data = b""
    starts = []
    for start, end in pairwise(cuts):
        starts += [(start, len(data))] * (end > start)
        data += compress(content[start:end]) + between
    locators = []
    for match in re.finditer(rb"(?m)^", content):
        start, member = max(each for each in starts if each[0] <= match.start())
        within = match.start() - start
        locators.append((member, f"lines:{within}") if start else (within, "lines"))
    return lines, data, locators


@pytest.mark.parametrize(
    ("suffix", "compress", "between"),
    [
        ("zst", zstandard.compress, b"\x50*M\x18\x02\0\0\0ab"),
        ("gz", lambda data: gzip.compress(data, 0), b""),
    ],
)
def test_a_file_of_many_members_is_cut_between_them(tmp_path, suffix, compress, between):
    lines, data, locators = compress_members(compress, between)
    path = tmp_path / f"a.txt.{suffix}"
    path.write_bytes(data)
    for count in (1, 2, 5):
        sizes = {"unit_bytes": -(-len(data) // count)}
        reader = {"name": "lines", "encoding": "windows-1252"}
        entry = {"path": str(path), "reader": "lines"}
        plan = load_plan(recipe_for(entry, tmp_path / "out", plan=sizes))
        ranges = [read(path, each.start, each.end, **reader) for each in plan.ranges]
        items = [*chain.from_iterable(ranges)]

        assert [len(ranges), len(plan.units)] == [count] * 2
        assert sum(map(bool, ranges)) > count / 2
        assert [item.text for item in items] == lines
        assert [item[:2] for item in items] == locators
        assert not plan.streams


@pytest.mark.parametrize("size", [4096, 99_999])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_large_file_of_one_part_is_told_with_a_command(tmp_path, encoding, size):
    text = "".join(f'{{"text": "{hash64(number):x}"}}\n' for number in range(3000))
    path = tmp_path / "it's.jsonl.gz"
    path.write_bytes(gzip.compress(text.encode(encoding)))
    recipe = recipe_for(str(path), tmp_path / "out", plan={"unit_bytes": size})
    plan = load_plan(recipe, store=True)
    previews = preview_stages(recipe, ["clean"], load_plan(recipe), KnownRecords(), False, None)
    parts = plan_view(load_plan(recipe), previews).parts
    told = [part for part in parts if "in many parts: " in str(part)]

    assert len(plan.units) == len(load_plan(recipe).units) == 1
    assert plan.streams == (str(path),) * (size == 4096)
    assert ("has_members" in plan.inputs[0]) == (size == 4096)
    assert len(told) == (size == 4096)

    for line in told:
        command = (
            line.partition("in many parts: ")[2].replace(", and then", " &&").replace("16M", "9K")
        )
        subprocess.run(["bash", "-c", command], check=True)
        assert gzip.decompress(path.read_bytes()) == text.encode(encoding)
        cut = -(-path.stat().st_size // size)
        assert len(load_plan(recipe).units) == (1 if encoding == "utf-16" else cut)


def sources_of(plan):
    """Return the sources of each unit, by its name."""
    units = zip(plan.names, plan.units, strict=True)
    return {name: [planned.source for planned in unit] for name, unit in units}


@pytest.mark.parametrize(("count", "units"), [(20, range(20, 21)), (900, range(30, 130))])
def test_an_added_file_changes_the_unit_next_to_it_alone(tmp_path, count, units):
    """Few files have a unit each, many share units; a unit keeps its name."""
    source = write(tmp_path / "in", 1000, *(f"{number:04d}.jsonl" for number in range(count)))
    recipe = recipe_for(source, tmp_path / "out")
    before = sources_of(load_plan(recipe))

    assert len(before) in units

    for number in (3, 11, 17):
        write(tmp_path / "in", 1000, f"{number:04d}b.jsonl")
        after = sources_of(load_plan(recipe))
        changed = [name for name in before if after.get(name) != before[name]]
        assert len(changed) <= (count > 20)
        listed = list(chain.from_iterable(after.values()))
        assert listed == sorted(listed)
        before = after


def test_files_of_two_roles_share_no_unit(tmp_path):
    source = write(tmp_path / "in", 10, *(f"{number}.jsonl" for number in range(200)))
    entries = [{"path": f"{source}/*[02468].jsonl"}]
    entries += [{"path": f"{source}/*[13579].jsonl", "role": "compare"}]
    plan = load_plan(recipe_for(entries, tmp_path / "out", dedup={}))

    assert {len({each.entry.role for each in unit}) for unit in plan.units} == {1}


def test_the_plan_follows_inputs_and_options_and_not_places(tmp_path):
    def content(source, **keys):
        stored = load_plan(recipe_for(source, tmp_path / "out", **keys)).as_json()
        for each in stored["inputs"]:  # times differ
            del each["state"]
            each.pop("identity", None)
        return json.dumps(stored)

    first, moved = (write(tmp_path / name, 1000, "a.jsonl") for name in ("one", "two"))
    entries = ({}, {"source": "b"}, {"text_key": "body"}, {"language": "en"})
    found = [content({"path": first, **keys}) for keys in entries]
    found += [content(first, plan={name: 4096}) for name in ("unit_bytes", "shard_bytes")]

    assert content(moved) == content(f"{first}/*.jsonl") == found[0]
    assert len({*found}) == len(found)


@pytest.mark.parametrize(
    ("source", "plan", "error", "said"),
    [
        (["in", "in/a.jsonl"], None, ConfigurationError, "is listed twice"),
        ([], None, ConfigurationError, "no input: add input=FILE"),
        ([], add_checksum({"format": 0}), IntegrityError, "the plan is damaged"),
        ([], {}, IntegrityError, "the plan is damaged"),
    ],
)
def test_mistakes_are_named(tmp_path, monkeypatch, source, plan, error, said):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "in", 1, "a.jsonl")
    if plan is not None:
        (tmp_path / "out/clean").mkdir(parents=True)
        (tmp_path / "out/clean/plan.json").write_text(json.dumps(plan))
    with pytest.raises(error, match=said):
        load_plan(recipe_for(source, tmp_path / "out"))


def test_a_stored_plan_has_the_units_of_the_files(tmp_path):
    """Also one of format 1, which listed the ranges, and where inputs have no group."""
    write(tmp_path / "in", 5000, "a.jsonl")
    source = write(tmp_path / "in", 10, *(f"{n}.txt" for n in range(70)))
    inputs = [{"path": f"{source}/*.jsonl"}, {"path": f"{source}/*.txt", "source": "b/c"}]
    plan = load_plan(recipe_for(inputs, tmp_path / "out", plan={"unit_bytes": 8192}), store=True)
    keys = ("unit", "source", "source_group", "reader", "start", "end")
    ranges = [{key: getattr(each, key) for key in keys} for each in plan.ranges]
    path = tmp_path / "out/clean/plan.json"

    def load():
        stored = load_plan(recipe_for([], tmp_path / "out"))
        assert [{key: getattr(each, key) for key in keys} for each in stored.ranges] == ranges
        assert stored.names == plan.names
        return stored

    assert load().inputs == plan.inputs
    assert len(plan.units) < 70 < len(ranges)
    assert len(path.read_bytes()) < 110 * len(plan.inputs) + 600

    old = [{k: v for k, v in each.items() if k != "source_group"} for each in plan.inputs]
    former = {"format": 1, "shards": plan.shards, "inputs": old, "units": ranges}
    path.write_text(json.dumps(add_checksum(former)))
    load()
    recipe = recipe_for(inputs, tmp_path / "out", plan={"unit_bytes": 8192})
    assert load_plan(recipe, store=True).changes == {"new": 0, "changed": 0, "removed": 0}
    assert load().inputs == plan.inputs


def test_changes_since_the_last_start_are_counted(tmp_path):
    recipe = recipe_for(write(tmp_path / "in", 10, "a.jsonl", "c.jsonl"), tmp_path / "out")

    assert load_plan(recipe, store=True).changes == {}

    write(tmp_path / "in", 11, "b.jsonl", "c.jsonl")
    (tmp_path / "in/a.jsonl").unlink()
    for count in (1, 0):
        assert load_plan(recipe).changes == dict.fromkeys(("new", "changed", "removed"), count)
        load_plan(recipe, store=True)


def test_units_and_shards_grow_with_the_corpus(tmp_path, monkeypatch):
    source = write(tmp_path / "in", 3000, *(f"{number}.jsonl" for number in range(3)))

    def load(most, **sizes):
        monkeypatch.setattr(plans, "MOST_UNITS", most)
        plan = load_plan(recipe_for(source, tmp_path / "out", plan=sizes))
        return len(plan.units), plan.shards

    monkeypatch.setattr(plans, "LEAST_UNIT_BYTES", 4096)
    monkeypatch.setattr(plans, "LEAST_BYTES", 16_384)

    assert load(1000) == (33, 8)

    monkeypatch.setattr(plans, "LEAST_BYTES", 4096)

    # 126,000 bytes: ceil(126,000 / 4,096) = 31 shards, rounded up to a power of two
    assert load(1000) == load(1000, unit_bytes=4096, shard_bytes=4096) == (33, 32)
    # a tenth of the bytes, 12,600, rounded up to 16,384
    assert load(10) == (9, 8)
    assert load(10, unit_bytes=4096) == (33, 8)

    monkeypatch.setattr(plans, "MOST_PIECES", 71)
    with refused(r"9 units and 8 shards make 72 pieces .* at most 71: remove plan"):
        load(10)
