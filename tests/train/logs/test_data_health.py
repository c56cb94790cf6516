"""A run's account of its data: skipped blocks, phases with their effective weights,
waiting."""

from types import SimpleNamespace

import numpy as np
import pytest

from clozeline.pipeline.shards import open_shards
from clozeline.train.data.stream import rounds
from clozeline.train.data.stream.order import BlockOrder, LogicalBlocks
from clozeline.train.data.stream.phases import phase_of
from clozeline.train.logs import data_health as supply
from tests.shard_sets import damage
from tests.train import runs
from tests.train.data.stream.streams import open_stream
from tests.train.masked_set import write_config, write_masked_sets

LANES = 4
BLOCK_ROWS = 16
STEPS = 30


def start(world, config, overrides):
    """A run that does not pause before it reads again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "_PAUSE_S", 0.0)
        return runs.start(world, config, overrides)


def events(output, kind):
    return [
        {key: event[key] for key in event if key not in ("event", "time")}
        for event in runs.events(output, kind)
    ]


def first_block_of(shards, lane):
    order = BlockOrder(shards.manifest.name, len(shards), BLOCK_ROWS, 0, LANES)
    (piece,) = LogicalBlocks(shards.index.rows, BLOCK_ROWS).pieces(order.block(0, lane))
    return piece.block


def test_a_masked_block_of_any_rank_is_named(two_ranks, tmp_path):
    """The block is rank 1's."""
    manifest = write_masked_sets(tmp_path / "corrupt", block_rows=BLOCK_ROWS)
    shards = open_shards(manifest)
    block = first_block_of(shards, LANES - 1)
    damage(shards, block)
    shard = shards.shard_path(int(shards.index.shard[block])).name
    place = {"shard": shard, "block": int(shards.index.block[block])}
    changes = {"steps": STEPS, "schedule__steps": STEPS, "data__max_damaged_fraction": 0.1}
    config = write_config(tmp_path / "a.yaml", manifest, tmp_path / "skipped", **changes)

    assert two_ranks.run(start, config, []) == [(0, "")] * 2
    assert events(tmp_path / "skipped", "skipped_block") == [
        {"step": 1, "shards": str(manifest), **place}
    ]

    last = runs.steps(tmp_path / "skipped")[-1]["stream"]

    assert last["skipped_blocks"] == 1
    assert last["blocks"] >= len(shards.index) - 1


def test_the_shares_of_the_rows_read_are_told_at_the_end(two_ranks, tmp_path):
    """Seven rows on four lanes come with one of filler; each rank reads two lanes."""
    sets = [
        write_masked_sets(tmp_path / name, rows=rows, name=name)
        for name, rows in (("small", 7), ("large", 300))
    ]
    changes = {"steps": STEPS, "schedule__steps": STEPS, "data__weights": [1, 3]}
    config = write_config(tmp_path / "a.yaml", sets[0], tmp_path / "out", **changes)
    shards = ",".join(map(str, sets))
    assert two_ranks.run(start, config, [f"data.shards=[{shards}]"]) == [(0, "")] * 2

    (event,) = events(tmp_path / "out", "mixed")
    samples = runs.steps(tmp_path / "out")[-1]["samples"]
    with open_stream(
        [phase_of([*map(open_shards, sets)], [1, 3])], lanes=LANES, global_batch=LANES
    ) as stream:
        read = stream.reading.origins(0, samples // LANES)[:, 0]
    counted = [(read == number).sum() / (read >= 0).sum() for number in range(2)]

    assert event["asked"] == "25.0%, 75.0%"
    assert [*event["shares"].values()] == pytest.approx(counted, abs=0.01)
    assert counted[0] < 0.24


def test_waiting_is_judged_over_windows(monkeypatch):
    """The first step loads the first round; what is told once is told again after a rest."""
    monkeypatch.setattr(supply, "_WINDOW_STEPS", 4)
    told = []
    timeline = SimpleNamespace(at=lambda _: None)
    stream = SimpleNamespace(timeline=timeline, samples=0, lanes=1, sources=[], stats=dict)
    world = SimpleNamespace(gather=lambda value: [value])
    health = supply.LoadingHealth(
        [stream], world, 0.0, lambda _, step, waited_share, **__: told.append((step, waited_share))
    )
    steps = (
        [(9.0, 9.0)] + [(0.0, 1.0)] * 3 + [(0.3, 1.0)] * 5 + [(0.05, 1.0)] * 4 + [(0.06, 1.0)] * 4
    )
    for step, (waited, seconds) in enumerate(steps, 1):
        health.observe_step(step, waited, seconds)

    assert told == [
        (5, pytest.approx(0.075)),
        (17, pytest.approx(0.06)),
    ]


def test_rows_of_a_step_of_two_batches_are_named_without_filler():
    batches = {
        4: [[0, 7, 1], [1, 3, 0]],
        6: [[0, 7, 2], [-1, -1, -1]],
    }
    timeline = SimpleNamespace(at=lambda _: None)
    stream = SimpleNamespace(timeline=timeline, samples=0, lanes=1, sources=[])
    stream.explain = lambda start: np.array(batches[start])

    assert supply.LoadingHealth([stream], None, 0.0, print).origins(4, 4) == [
        [0, 7, 1],
        [1, 3, 0],
        [0, 7, 2],
    ]


def test_a_phase_is_told_when_its_first_row_of_the_lanes_was_read():
    """Four lanes; the second phase begins with lane row 3."""
    first = SimpleNamespace(global_batch=8, stop=3)
    second = SimpleNamespace(global_batch=16, stop=None)
    timeline = SimpleNamespace(at=lambda row: first if row < 3 else second, spans=[first, second])
    stream = SimpleNamespace(timeline=timeline, samples=0, lanes=4, sources=[])
    told = []
    stream.reading = stream
    stream.shares = lambda own: {own.global_batch: 1.0}
    health = supply.LoadingHealth(
        [stream], None, 0.0, lambda event, **fields: told.append((event, fields))
    )
    for step, samples in enumerate((8, 12, 16, 28), 1):
        stream.samples = samples
        health.observe_step(step, 0.0, 1.0)

    facts = {"phase": 1, "shares": {16: 1.0}, "global_batch": 16, "until_samples": None}

    assert told == [("phase", {"step": 3, **facts})]
    assert health.phases() == [
        {"phase": 0, "shares": {8: 1.0}, "global_batch": 8, "until_samples": 12},
        facts,
    ]
