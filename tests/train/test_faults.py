"""Ranks that die, raise, hang or are told to stop, and saves that are killed at every point."""

import json
import os
import re
import signal

import pytest

from clozeline.run_status import read_status
from tests.distributed import Ranks
from tests.train import faulty, runs
from tests.train.aftermath import run_checked, whole_checkpoints
from tests.train.masked_set import write_config


@pytest.fixture(scope="module")
def straight(tmp_path_factory, shards):
    """Every bit that an undisturbed run logs.

    It says nothing on stderr, and rank 1 nothing at all.
    """
    folder = tmp_path_factory.mktemp("straight")
    finished = go(folder, shards, faulty.train_normally)

    assert finished.codes == [0, 0]
    assert finished.errors == ["", ""]
    assert finished.outputs[1] == ""
    assert "\x1b" not in finished.outputs[0]

    return logged(folder)


def go(folder, shards, function, *arguments, **changes):
    settings = {"zero__stage": 2, "checkpoint__every": 2, "checkpoint__keep_last": 9, **changes}
    config = write_config(folder / "train.yaml", shards, folder / "run", **settings)
    return run_checked(2, function, *arguments, "--config", str(config), folder=folder)


def logged(folder):
    return runs.logged(folder / "run")


def valid(folder):
    return whole_checkpoints(folder / "run")


def test_rank_that_dies(tmp_path, shards, straight):
    """The other one leaves, and the same command continues to the very losses of an undisturbed
    run."""
    finished = go(tmp_path, shards, faulty.fault_in_step, "kill", 6, 1)

    assert finished.codes == [71, -signal.SIGKILL], "the other rank noticed and left"
    assert "error: rank 0: another rank ended" in finished.errors[0]
    assert "Traceback" not in finished.errors[0]
    assert valid(tmp_path) == [2, 4]

    status = json.loads((tmp_path / "run" / "status.json").read_text())

    assert (status["state"], status["exit_code"], status["checkpoint"]) == (
        "failed",
        71,
        "step-00000004",
    )
    assert go(tmp_path, shards, faulty.train_normally).codes == [0, 0]
    assert logged(tmp_path) == straight


@pytest.mark.slow
@pytest.mark.parametrize("stage", [0, 2, 3])
def test_a_rank_that_is_stopped_is_waited_for_no_longer_than_the_limit(tmp_path, shards, stage):
    """As by SIGSTOP, or on a machine without memory: DeepSpeed reduces gradients in a group of its
    own."""
    settings = {
        "zero__stage": stage,
        "checkpoint__every": 2,
        "collective_timeout_s": 5,
        "watchdog_s": 0,
    }

    config = write_config(tmp_path / "train.yaml", shards, tmp_path / "run", **settings)
    ranks = Ranks(
        2,
        faulty.fault_in_step,
        (
            "SIGSTOP",
            6,
            1,
            "--config",
            str(config),
        ),
        tmp_path,
    )
    other, stopped = ranks.processes
    other.join(60)

    assert (other.exitcode, stopped.is_alive()) == (71, True)

    os.kill(stopped.pid, signal.SIGCONT)
    finished = ranks.finish(60)

    assert (finished.codes, finished.left) == ([71, 71], [])
    assert "another rank gave no answer" in finished.errors[0]
    assert valid(tmp_path) == [2, 4]
    assert read_status(tmp_path / "run").state == "failed"


def test_signal_stops_all_ranks_after_the_step(tmp_path, shards, straight):
    """To all, as from the keyboard."""
    finished = go(tmp_path, shards, faulty.fault_in_step, "SIGINT", 3, None, checkpoint__every=None)

    assert finished.codes == [75, 75]
    assert valid(tmp_path) == [3], "asked during step 3, and no step begins after that"
    assert "start the same command again" in finished.outputs[0]
    assert go(tmp_path, shards, faulty.train_normally, checkpoint__every=None).codes == [0, 0]
    assert logged(tmp_path) == straight


def test_hang_is_ended_by_the_watchdog_with_stacks(tmp_path, shards):
    finished = go(tmp_path, shards, faulty.fault_in_step, "hang", 3, 1, watchdog_s=2.0)

    assert 70 in finished.codes
    assert set(finished.codes) <= {71, 70}

    stuck = finished.errors[finished.codes.index(70)]

    assert "error: rank 1: no progress for 2 s (watchdog_s)" in stuck.replace("rank 0", "rank 1")
    assert re.search(r"Thread 0x|Current thread", stuck)
    assert valid(tmp_path) == [2]

    status = read_status(tmp_path / "run")

    assert status.ended or status.state == "failed", "nothing says that it runs"


def test_ranks_that_disagree_are_refused(tmp_path, shards):
    finished = go(tmp_path, shards, faulty.other_seed_on_rank_one)

    assert finished.codes == [64, 64]
    assert "ranks disagree" in finished.errors[0]
    assert "'seed': 7" in finished.errors[0]
    assert "'seed': 99" in finished.errors[0]
    assert finished.errors[1] == ""
