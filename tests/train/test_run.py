"""Whole runs over real shards, on ranks that have started already."""

import json
import os
import re
import shutil
import signal

import pytest

from clozeline.configuration.config import load_config
from clozeline.train.checkpoint import save_pace
from clozeline.train.checkpoint.stored_checkpoint import Index, step_of, steps_in
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.stopping import StopRequest
from clozeline.train.logs.json_lines import read_lines
from tests.train import runs
from tests.train.aftermath import check_status, written
from tests.train.masked_set import TOKENIZER, write_config, write_masked_sets
from tests.train.runs import events, logged, steps


def start(world, config, overrides, stop_after=0):
    """A run; returns (exit code, error).

    `stop_after` asks rank 1 (or the only one) to stop after that step.
    """
    asked = 0
    real = StopRequest.is_set

    def is_set(self):
        nonlocal asked
        asked += 1
        if stop_after and asked == stop_after + 1 and world.rank == world.size - 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return real(self)

    StopRequest.is_set = is_set
    settings = load_config(TrainConfig, config, overrides)
    before = written(settings.output)

    try:
        code, message = runs.start(world, config, overrides)
    finally:
        StopRequest.is_set = real

    if world.rank == 0:
        check_status(settings.output, code, before)
    return code, message


def test_stopped_and_started_again_equals_straight(two_ranks, tmp_path, shards):
    """A SIGTERM to one rank after step 5.

    The same command again ends with every logged bit of the straight run.
    """
    paths = [tmp_path / name for name in ("straight", "stopped")]
    configs = [
        write_config(path.with_suffix(".yaml"), shards, path, zero__stage=1) for path in paths
    ]

    assert two_ranks.run(start, configs[0], []) == [(0, "")] * 2
    assert two_ranks.run(start, configs[1], [], 5) == [(75, "")] * 2
    assert json.loads((paths[1] / "status.json").read_text())["state"] == "stopped"
    assert events(paths[1], "stop")[0]["step"] == 5
    assert two_ranks.run(start, configs[1], []) == [(0, "")] * 2
    assert logged(paths[1]) == logged(paths[0])
    assert events(paths[1], "resume")[0]["exact"] is True
    assert two_ranks.run(start, configs[1], []) == [(0, "")] * 2, "a finished run has nothing to do"
    assert len(logged(paths[1])) == 8


def test_steps_without_a_rate_are_refused(one_rank, tmp_path, shards):
    """Beyond a horizon at which the rate is 0 nothing would be learned.

    The message names two ways that work.
    """
    config = write_config(tmp_path / "a.yaml", shards, tmp_path / "run", schedule__steps=None)

    assert one_rank.run(start, config, ["steps=3"]) == [(0, "")]

    ((code, message),) = one_rank.run(start, config, ["steps=5"])

    assert code == 64
    assert "is 0 from step 3 on, and steps 4 to 5 would learn nothing" in message
    assert "checkpoint.allow_changed=[schedule.steps] schedule.steps=5" in message
    assert one_rank.run(start, config, ["steps=3"]) == [(0, "")], "nothing is to be done"

    longer = ["steps=5", "checkpoint.allow_changed=[schedule.steps]", "schedule.steps=5"]

    assert one_rank.run(start, config, longer) == [(0, "")]

    rates = [record["learning_rate"] for record in steps(tmp_path / "run")]

    assert rates == pytest.approx([0.0015, 0.003, 0.0, 0.001, 0.0])

    other = ["steps=6", "checkpoint.allow_changed=[schedule]", "schedule.name=constant"]

    assert one_rank.run(start, config, other) == [(0, "")]
    assert steps(tmp_path / "run")[-1]["learning_rate"] == 0.003

    ((code, message),) = one_rank.run(
        start, config, [f"output={tmp_path / 'new'}", "schedule.steps=7", "steps=8"]
    )

    assert code == 64
    assert "set schedule.steps=8" in message


def test_record_of_a_step(two_ranks, tmp_path, shards):
    config = write_config(
        tmp_path / "train.yaml", shards, tmp_path / "run", steps=2, log__tensorboard=True
    )
    two_ranks.run(start, config, ["checkpoint.every=1"])
    first, second, evaluated = read_lines(tmp_path / "run" / "metrics.jsonl")

    assert first["step_ms"]["between"] == 0.0 < second["step_ms"]["between"], "the first save"
    assert second["flops"] == 2 * first["flops"] > 0
    assert second["tokens_per_s"] < second["padded_tokens_per_s"]

    whole = sum(second["step_ms"].values()) / 1e3

    assert second["cpu_s"] > 0
    assert second["samples_per_s"] == pytest.approx(8 / whole)

    assert second["mfu"] * whole == pytest.approx(
        first["mfu"] * sum(first["step_ms"].values()) / 1e3
    )
    assert (
        first["samples"],
        second["samples"],
        first["learning_rate"],
    ) == (8, 16, 0.0015)
    assert first["epoch"] == pytest.approx(8 / 240)

    (guesses,) = events(tmp_path / "run", "guesses")

    assert (guesses["step"], len(guesses["sets"]["heldout"])) == (2, 2), "of the first micro-batch"

    assert list((tmp_path / "run" / "tensorboard").glob("events.out.*"))
    assert (tmp_path / "run" / "report.html").exists()

    state = Index.read(tmp_path / "run" / "checkpoints" / "step-00000002").state

    assert state["heldout_loss"] == evaluated["heldout"]["heldout"]["loss"]


def test_a_heldout_set_of_another_tokenizer_is_refused(one_rank, tmp_path, shards):
    other = write_masked_sets(tmp_path / "other", tokenizer=TOKENIZER | {"fingerprint": "e" * 64})
    config = write_config(tmp_path / "train.yaml", shards, tmp_path / "run")
    ((code, message),) = one_rank.run(start, config, [f"data.heldout={other}"])
    assert (code, "eeeeeeeeeeeeeeee" in message, "ffffffffffffffff" in message) == (64, True, True)


@pytest.mark.parametrize(
    ("words", "message", "kept"),
    [
        (["optimizer.learning_rate=1e30"], "3 gradients in a row were not finite", [1]),
        (["optimizer.learning_rate=1e300"], "step 1: the weights .* since step 1", []),
        (["optimizer.learning_rate=1e300", "checkpoint.every=3"], "step 4: 3 gradients", []),
        (["optimizer.learning_rate=1e30", "steps=1"], "step 1: no loss .* since step 1", []),
        (["optimizer.learning_rate=1e30", "steps=2"], "step 2: no loss .* since step 1", [1]),
    ],
)
def test_diverged_run_ends_with_its_own_code(one_rank, tmp_path, shards, words, message, kept):
    """A rate of 1e30 leaves finite weights, but no finite loss."""
    changes = {"steps": 40, "schedule": {"name": "constant"}, "checkpoint__every": 1}
    config = write_config(tmp_path / "train.yaml", shards, tmp_path / "run", **changes)
    words = ["max_consecutive_skips=3", "gradient_clipping=0", *words]
    ((code, said),) = one_rank.run(start, config, words)

    assert (code, bool(re.search(message, said))) == (76, True), said
    assert [step_of(path.name) for path in steps_in(tmp_path / "run" / "checkpoints")] == kept
    if "3 gradients" not in message:
        return

    skips = events(tmp_path / "run", "skip")

    assert [event["in_a_row"] for event in skips] == [1, 2, 3]
    assert len(skips[-1]["rows_source_block_row"]) == 8
    assert read_lines(tmp_path / "run" / "metrics.jsonl")[-1]["loss"] is None


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_best_evaluated_step_is_kept_whatever_else_is_saved(
    two_ranks, tmp_path, shards, asynchronous
):
    """Saves at 5, 10, evaluations at 3, 6, 9, and a rate that soon spoils the model.

    A stop changes nothing.
    """
    changes = {
        "steps": 11,
        "schedule": {"name": "constant"},
        "optimizer__learning_rate": 0.1,
        "zero__stage": 1,
    }

    changes |= {
        "evaluate": {"every": 3},
        "checkpoint": {"every": 5, "keep_last": 1, "keep_best": True},
    }
    changes["checkpoint"]["asynchronous"] = asynchronous

    for name, stop_after in (("straight", 0), ("stopped", 7)):
        output = tmp_path / name
        config = write_config(tmp_path / f"{name}.yaml", shards, output, **changes)
        if stop_after:
            assert two_ranks.run(start, config, [], stop_after) == [(75, "")] * 2

        assert two_ranks.run(start, config, []) == [(0, "")] * 2

        losses = {
            record["step"]: record["heldout"]["heldout"]["loss"]
            for record in read_lines(output / "metrics.jsonl")
            if "heldout" in record
        }

        assert set(losses) == {3, 6, 9, 11}

        best = min(losses, key=losses.get)

        assert best in (3, 6, 9), "no step that is saved for another reason"
        assert {path.name for path in (output / "checkpoints").glob("step-*")} == {
            f"step-{best:08d}",
            "step-00000011",
        }

        state = Index.read(output / "checkpoints" / f"step-{best:08d}").state

        assert state["heldout_loss"] == losses[best]


def start_with_pace(world, config, least):
    """A run whose first rank asks for saves after `least` seconds.

    The second one would never ask.
    """
    save_pace.LEAST_SECONDS = least if world.rank == 0 else 1e9
    save_pace.LARGEST_SHARE = 1.0

    try:
        return runs.start(world, config, ["checkpoint.every=auto", "checkpoint.keep_last=99"])
    finally:
        save_pace.LEAST_SECONDS = 60.0
        save_pace.LARGEST_SHARE = 0.02


def test_saves_by_time_are_those_of_the_first_rank_and_change_no_result(
    two_ranks, tmp_path, shards
):
    logs = []
    steps_saved = []

    for name, least in (("often", 0.0), ("never", 1e9)):
        config = write_config(tmp_path / f"{name}.yaml", shards, tmp_path / name, zero__stage=1)
        assert two_ranks.run(start_with_pace, config, least) == [(0, "")] * 2
        logs.append(logged(tmp_path / name))
        steps_saved.append(len(list((tmp_path / name / "checkpoints").glob("step-*"))))

    assert logs[0] == logs[1]
    assert steps_saved == [8, 1]


@pytest.mark.parametrize("lost", ["", "status.json"])
def test_a_start_after_a_run_without_a_checkpoint_says_so(one_rank, tmp_path, shards, lost):
    config = write_config(tmp_path / "a.yaml", shards, tmp_path / "run")

    assert one_rank.run(start, config, []) == [(0, "")]

    for path in (tmp_path / "run" / "checkpoints").iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if lost:
        (tmp_path / "run" / lost).unlink()

    assert one_rank.run(runs.start, config, []) == [(0, "")]

    (event,) = events(tmp_path / "run", "nothing_saved")

    assert event["steps"] == 8

    new = write_config(tmp_path / "b.yaml", shards, tmp_path / "new")

    assert one_rank.run(start, new, []) == [(0, "")]
    assert not events(tmp_path / "new", "nothing_saved")


def test_a_resumed_run_says_which_steps_its_curves_lack(one_rank, tmp_path, shards):
    config = write_config(tmp_path / "a.yaml", shards, tmp_path / "run", steps=6)

    for last in (6, 7, 8):
        assert one_rank.run(start, config, [f"steps={last}"]) == [(0, "")]
        if last == 6:
            (tmp_path / "run" / "metrics.jsonl").unlink()

    (event,) = events(tmp_path / "run", "records_lost")

    assert (event["first"], event["last"]) == (1, 6)
