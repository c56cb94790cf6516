"""Run directories: what a start finds there, and what it writes."""

import os

from clozeline.configuration.config import load_config
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.startup.run_directory import lock_run
from tests.refusals import refused
from tests.train.masked_set import write_config
from tests.train.runs import complete, start


def test_one_run_at_a_time(tmp_path, shards):
    config = load_config(
        TrainConfig, write_config(tmp_path / "train.yaml", shards, tmp_path / "run")
    )
    with (
        lock_run(config.output, config.resume),
        refused(rf"in use by process {os.getpid()}"),
        lock_run(config.output, config.resume),
    ):
        pass

    with lock_run(config.output, config.resume):
        assert (tmp_path / "run" / ".holder").exists()


def test_start_that_fails_early_leaves_the_folder_to_others(one_rank, tmp_path, shards):
    """`must` makes nothing.

    What another failure leaves before the first step does not hinder `never`.
    """
    config = write_config(tmp_path / "train.yaml", shards, tmp_path / "run", steps=1)
    ((code, message),) = one_rank.run(start, config, ["resume=must"])

    assert (code, "has no valid checkpoint" in message) == (64, True)
    assert not (tmp_path / "run").exists()
    assert one_rank.run(start, config, ["steps=9"])[0][0] == 64, "beyond the schedule"
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]

    (tmp_path / "run" / "notes").write_text("mine")
    ((code, message),) = one_rank.run(start, config, ["resume=never"])

    assert (code, "notes" in message) == (64, True)

    (tmp_path / "run" / "notes").unlink()

    complete(one_rank, config, ["resume=never"])
    assert one_rank.run(start, config, ["resume=never"])[0][0] == 64
