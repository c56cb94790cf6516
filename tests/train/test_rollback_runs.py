"""Runs that diverge, go back to a checkpoint and skip the rows that led there, against runs that
never read them."""

import json
import signal

import pytest

from clozeline.tools.runs.data.feed import FeedOptions, open_feed
from clozeline.train.checkpoint.state import TrainState
from clozeline.train.checkpoint.stored_checkpoint import Index, steps_in
from clozeline.train.data.stream.mixture import SkippedRows
from clozeline.train.data.stream.stream import Stream
from clozeline.train.engine import Engine
from tests.matrices import mark_slow_but
from tests.train import faulty
from tests.train.aftermath import run_checked
from tests.train.divergent_set import write_divergent_set
from tests.train.masked_set import write_config
from tests.train.runs import events, steps
from tests.train.test_run import start

SETTINGS = {
    "steps": 20,
    "schedule__steps": 20,
    "checkpoint__every": 2,
    "checkpoint__keep_last": 5,
    "max_consecutive_skips": 6,
    "hooks": [{"name": "average", "decay": 0.9}],
}
BACK = 6
START = 48
STOP = 112
"""Steps 9 to 14 are not finite. Those of step 8 are the weights that gave nothing finite, so step 6
is gone back to."""


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory):
    """Rows of the steps 9 to 16 whose loss is infinite."""
    return write_divergent_set(tmp_path_factory.mktemp("poisoned"), {1: 3e38})


def never_read(world, config, start_of_rows, stop, overrides):
    """A run without a rollback, whose stream jumps over rows by itself."""
    real = Stream.next_step

    def jump(stream, *given):
        if stream.samples == start_of_rows:
            stream.set_position(stop)
        return real(stream, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stream, "next_step", jump)
        return start(world, config, ["on_divergence=null", *overrides])


def learned(output):
    """Every bit that a run logs of its steps, and the hashes of its last weights and optimizer
    states."""
    keys = ("loss", "gradient_norm", "learning_rate", "tokens", "flops", "skipped")
    records = [(one["step"], [str(one[key]) for key in keys]) for one in steps(output)]
    last = Index.read(steps_in(output / "checkpoints")[-1])
    return records, (last.scalars, {name: record.xxh3_128 for name, record in last.files.items()})


@pytest.mark.parametrize(
    ("stage", "more"), mark_slow_but([(0, "")], [(0, ""), (2, "checkpoint.asynchronous=true")])
)
def test_a_rollback_equals_a_run_that_never_read_the_rows(
    two_ranks, tmp_path, poisoned, stage, more
):
    words = [f"zero.stage={stage}", *filter(None, [more])]
    paths = [tmp_path / name for name in ("diverged", "never")]
    configs = [
        write_config(path.with_suffix(".yaml"), poisoned, path, **SETTINGS) for path in paths
    ]
    extra = ["on_divergence={}"]

    assert two_ranks.run(start, configs[0], [*words, *extra]) == [(0, "")] * 2
    assert two_ranks.run(never_read, configs[1], START, STOP, words) == [(0, "")] * 2

    found, expected = (learned(path) for path in paths)

    assert found[1] == expected[1]

    for (step, mine), (_, theirs) in zip(found[0], expected[0], strict=True):
        # the run that jumps by itself counts the rows that it jumps over
        assert [*mine[:4], mine[5]] == [*theirs[:4], theirs[5]], step

    ratio = float(found[0][-1][1][4]) / float(expected[0][0][1][4])

    assert ratio == pytest.approx(20), "operations of 20 steps"
    # what the run says of it
    (told,) = events(paths[0], "rollback")

    assert (told["step"], told["checkpoint"], told["rows"], told["number"]) == (
        14,
        f"step-{BACK:08d}",
        64,
        1,
    )

    state = TrainState.read(Index.read(paths[0] / "checkpoints" / "step-00000020").state)

    assert (state.skipped_rows, state.rollbacks) == ((SkippedRows(BACK, START, STOP),), 1)
    assert (state.samples, state.rows) == (20 * 8 + STOP - START, 20 * 8)

    page = (paths[0] / "report.html").read_text(encoding="utf-8")

    assert "Rollbacks after a divergence: 1." in page
    assert "rollback 1 to step-00000006; the 64 rows since then are skipped" in page


def explode(world, config, at, overrides, rows=None, times=99):
    """A run in which the step that reads from a position on has a rate that ruins the weights.

    Writes what it read.
    """
    real = Engine.step
    read = {}
    left = times

    def step(engine, batches, counts, number, rate, **more):
        read[number] = [row for batch in batches for row in batch.origin.tolist()]
        nonlocal left
        ruinous = batches[-1].samples == at + 8 and left > 0
        left -= ruinous
        return real(engine, batches, counts, number, 1e30 if ruinous else rate, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "step", step)
        code = start(world, config, overrides)

    if rows is not None:
        rows.write_text(json.dumps(read))
    return code


def test_ruined_weights_are_not_gone_back_to_and_tools_know_the_rows(one_rank, tmp_path):
    """The update of step 8 ruins the weights, which are saved.

    What follows is not finite, and step 6 is gone back to.

    The rows that are skipped end in another phase of the data, with larger batches. The run is
    started again after step 13.
    """
    shards = write_divergent_set(tmp_path / "set", {})
    phases = [
        {"shards": str(shards), "until_samples": 64},
        {"shards": str(shards), "global_batch": 16},
    ]
    paths = [tmp_path / name for name in ("ruined", "never")]
    changes = {**SETTINGS, "gradient_clipping": 0.0, "max_consecutive_skips": 3, "log__every": 3}
    changes |= {"data__phases": phases, "data__shards": None}
    configs = [write_config(path.with_suffix(".yaml"), shards, path, **changes) for path in paths]
    rows = tmp_path / "rows.json"

    assert one_rank.run(explode, configs[0], 56, ["on_divergence={}", "steps=13"], rows) == [
        (0, "")
    ]

    read = json.loads(rows.read_text())

    assert one_rank.run(explode, configs[0], 56, ["on_divergence={}"], rows) == [(0, "")]

    read |= json.loads(rows.read_text())

    assert one_rank.run(never_read, configs[1], 48, 112, []) == [(0, "")]
    assert learned(paths[0])[1] == learned(paths[1])[1]
    # explain-batch and where-is: the rows of each step, and those of no step
    feed = open_feed(FeedOptions(run=paths[0]))

    for step in range(1, 21):
        row_reads = feed.batch(feed.samples(step))
        assert sorted([visit.source, *(visit.stored or ())] for visit in row_reads) == sorted(
            read[str(step)]
        )
        assert feed.state(feed.samples(step)) == "read"
        assert {feed.step(visit.position * 4) for visit in row_reads} == {step}

    assert [feed.state(samples) for samples in (40, 48, 96, 112)] == [
        "read",
        "skipped",
        "skipped",
        "read",
    ]
    assert feed.step(96) == 11, "the step that read it, and was taken back"


def test_the_same_rows_again_equal_a_run_without_the_fault(one_rank, tmp_path):
    shards = write_divergent_set(tmp_path / "set", {})
    paths = [tmp_path / name for name in ("failed", "sound")]
    changes = {**SETTINGS, "gradient_clipping": 0.0, "max_consecutive_skips": 3}
    configs = [write_config(path.with_suffix(".yaml"), shards, path, **changes) for path in paths]
    words = ["on_divergence={skip_rows: false}"]

    assert one_rank.run(explode, configs[0], 56, words, None, 1) == [(0, "")], (
        "step 8, as by a fault of the hardware"
    )
    assert one_rank.run(start, configs[1], []) == [(0, "")]
    assert learned(paths[0]) == learned(paths[1])
    assert [event["then"] for event in events(paths[0], "rollback")] == ["come again"]


@pytest.fixture(scope="module")
def straight(poisoned, tmp_path_factory):
    """A run that nobody kills."""
    folder = tmp_path_factory.mktemp("straight")
    assert go(folder, poisoned, faulty.train_normally).codes == [0]
    return folder / "run"


def go(folder, shards, function, *arguments):
    changes = {**SETTINGS, "checkpoint__keep_last": 9, "on_divergence": {}}
    config = write_config(folder / "train.yaml", shards, folder / "run", **changes)
    return run_checked(1, function, *arguments, "--config", str(config), folder=folder)


KILLS = [("checkpoint.json", 5), (".tmp-old-step-00000008", 1)]


@pytest.mark.parametrize(("point", "occurrence"), mark_slow_but([], KILLS))
def test_a_kill_in_a_rollback_costs_no_bit(tmp_path, poisoned, straight, point, occurrence):
    """Four saves come before it, and it removes the step 8."""
    assert go(tmp_path, poisoned, faulty.kill_at_replace, point, occurrence, "after").codes == [
        -signal.SIGKILL
    ]

    again = go(tmp_path, poisoned, faulty.train_normally)

    assert again.codes == [0], again.errors
    assert learned(tmp_path / "run") == learned(straight)

    names = [path.name for path in steps_in(straight / "checkpoints")]

    assert [path.name for path in steps_in(tmp_path / "run" / "checkpoints")] == names

    states = [
        TrainState.read(Index.read(path / "checkpoints" / names[-1]).state)
        for path in (tmp_path / "run", straight)
    ]

    assert states[0] == states[1]
