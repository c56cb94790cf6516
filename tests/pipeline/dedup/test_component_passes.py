"""Components over levels: their number of passes is planned, and no unit gets more rows than a range of band keys."""

from __future__ import annotations

import random

import numpy as np
import pytest

from benchmarks.corpus_size import opens_of
from clozeline.pipeline.dedup.columns import read_rows
from clozeline.pipeline.dedup.component_passes import Levels, NearAnswers, NearLinks, ReceivedLinks, level_passes
from clozeline.pipeline.dedup.parts import Parts
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import Output
from tests.pipeline.dedup.candidate_graphs import Candidates, OverRanges, graphs

LINK = (("node", "<u8"), ("label", "<u8"), ("source", "<u4"), ("linked", "?"))
LINK_BYTES, KEY_BYTES = 21, 16


@pytest.mark.parametrize(
    ("parts", "ranges", "units"),
    [
        (1, 1, (1, 1)),
        (9, 1, (1, 9)),
        (1, 9, (9, 1)),
        (2, 2, (2, 2, 1)),
        (9, 4, (4, 9, 2, 1)),
        (9, 7, (7, 9, 4, 2, 1)),
        (3726, 256, (256, 3726, 128, 64, 32, 16, 8, 4, 2, 1)),
    ],
)
def test_each_level_has_half_of_the_units_and_the_last_has_one(tmp_path, parts, ranges, units):
    files = Parts(tmp_path, tmp_path, parts, ranges)
    assert Levels(files).units == list(units)
    passes = [work for work in level_passes(files) if isinstance(work, NearLinks | NearAnswers)]
    up, down = units[1:-1], units[:1:-1]
    assert [work.units for work in passes] == [*up, *down]
    assert len({work.name for work in passes}) == len(passes)
    assert all(isinstance(work, Pass) for work in passes)


def test_links_and_answers_of_a_terabyte_at_the_defaults_take_few_opens(tmp_path):
    levels = Levels(Parts(tmp_path, tmp_path, 3726, 256))
    exchanges = [levels.links(level) for level in range(1, levels.last + 1)]
    exchanges += [levels.answers(level) for level in range(2, levels.last + 1)]
    assert sum(map(opens_of, exchanges)) < 12 * 3726


def slow_components(groups):
    """Sets of documents, joined one group at a time."""
    owner: dict[int, set[int]] = {}
    for group in groups:
        joined = set(group).union(*(owner.get(node, set()) for node in group))
        owner.update(dict.fromkeys(joined, joined))
    return {frozenset(members) for members in owner.values()}


def run_to_components(tmp_path, groups, size, parts, ranges):
    """Return the documents by name of their component, and the run."""
    candidates = Candidates(groups, size, parts, random.Random(size))
    run = OverRanges(tmp_path, candidates, ranges, None)
    for work in run.passes:
        if work.name == "near-members":
            break
        for unit in range(work.units):
            work.run(unit, Output(run.parts.folder))
    named: dict[int, set[int]] = {}
    for part in range(parts):
        here = np.flatnonzero(candidates.part == part)
        nodes, components = ReceivedLinks(run.parts, 1, part).components()
        for node, name in zip(nodes.tolist(), components.tolist(), strict=True):
            assert node >> 32 == part
            named.setdefault(name, set()).add(int(here[node & 0xFFFFFFFF]))
    return named, run


@pytest.mark.parametrize("shape", sorted(graphs(random.Random(0), 20)))
def test_components_equal_a_slow_union_of_sets(tmp_path, shape):
    for ranges, parts in ((2, 2), (6, 4), (17, 3)):
        groups = graphs(random.Random(ranges), 150)[shape]
        named, _ = run_to_components(tmp_path / str(ranges), groups, 150, parts, ranges)
        assert set(map(frozenset, named.values())) == slow_components(groups)


@pytest.mark.parametrize("shape", ["path", "ladder", "tree"])
def test_no_level_gives_a_unit_more_than_a_range_of_band_keys_has(tmp_path, shape):
    """One component of all documents is the worst case; by default a document has 14 keys."""
    size, ranges = 2000, 32
    named, run = run_to_components(tmp_path, graphs(random.Random(2), size)[shape], size, 8, ranges)
    assert len(named) == 1
    levels = Levels(run.parts)
    for level in range(2, levels.last + 1):
        read = [read_rows(run.parts.folder, levels.links(level), unit, LINK) for unit in range(levels.units[level])]
        assert max(map(len, read)) * LINK_BYTES <= size / ranges * 14 * KEY_BYTES


def test_what_nothing_joins_goes_no_higher_than_the_range_of_its_label(tmp_path):
    named, run = run_to_components(tmp_path, graphs(random.Random(2), 600)["cliques"], 600, 4, 8)
    assert len(named) == 120
    levels = Levels(run.parts)
    sent = [
        sum(len(read_rows(run.parts.folder, levels.links(level), unit, LINK)) for unit in range(levels.units[level]))
        for level in range(1, levels.last + 1)
    ]
    assert sent[0] >= 600
    assert sent[2:] == [0] * (levels.last - 2)
