"""Run directories: what a start finds there, and what it writes."""

import os
from types import SimpleNamespace

import pytest

from clozeline.configuration.config import load_config
from clozeline.train.checkpoint.state import TrainState
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.sets.datasets import open_datasets
from clozeline.train.data.stream.phases import open_phases
from clozeline.train.logs.journal import Journal
from clozeline.train.startup.run_directory import lock_run, prepare_directory, write_description
from clozeline.train.startup.start_or_resume import StartingPoint
from tests.refusals import refused
from tests.sealed_lines import sealed
from tests.train.masked_set import write_config
from tests.train.runs import complete, start


def test_one_run_at_a_time(tmp_path, shards):
    config = load_config(
        TrainConfig, write_config(tmp_path / "train.yaml", shards, tmp_path / "run")
    )
    with lock_run(config):
        with refused("in use by another process"):
            lock_run(config)
        write_description(config, open_phases(config.data))
        with refused(rf"in use by process {os.getpid()}"):
            lock_run(config)

    lock_run(config).close()


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


BOTH = ["metrics.jsonl", "events.jsonl"]


@pytest.mark.parametrize(
    ("step", "content", "missing"),
    [
        (0, None, []),
        (1, None, BOTH[1:]),
        (9, None, BOTH),
        (9, "", BOTH),
        (9, f"{sealed(step=9)}\n", []),
    ],
)
def test_a_resumed_run_announces_the_records_that_are_missing(
    tmp_path, shards, step, content, missing
):
    file = write_config(
        tmp_path / "train.yaml", shards, tmp_path / "run", log={"every": 2, "tensorboard": False}
    )
    config = load_config(TrainConfig, file, [])
    config.output.mkdir()
    for name in BOTH if content is not None else ():
        (config.output / name).write_text(content or "")
    announced = []
    state = TrainState(step=step, samples=8 * step)
    journal = Journal(config.output, config.log, 0)
    point = StartingPoint(
        config, state, SimpleNamespace(state=state, folder=config.output / f"step-{step:08d}")
    )
    prepare_directory(
        point,
        state,
        open_datasets(config),
        journal,
        lambda event, **fields: announced.append((event, fields)),
    )

    journal.close()

    assert announced == [("records_lost", {"file": name, "steps": step}) for name in missing]
    assert (config.output / "config.yaml").is_file()
