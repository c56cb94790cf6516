"""A branch of a run: the losses of a run that had its decay from the start, and a run that stays as
it was."""

import pytest

from clozeline.configuration.config import load_config
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.startup.announcements import dry_run
from tests.refusals import refused
from tests.train.masked_set import write_config
from tests.train.runs import complete, contents, logged

DECAY = ("schedule={name: wsd, warmup: 1, decay_from: 4}", "steps=8")


@pytest.fixture(scope="module")
def trunk(tmp_path_factory, one_rank, shards):
    """Write a run of six steps at a constant rate with all its checkpoints, beside its
    configuration."""
    folder = tmp_path_factory.mktemp("branches")
    keys = {
        "schedule": {"name": "constant", "warmup": 1},
        "checkpoint": {"every": 2, "keep_last": 9},
        "steps": 6,
    }

    write_config(folder / "c.yaml", shards, folder / "run", **keys)

    complete(one_rank, folder / "c.yaml")

    return folder


def losses(output):
    return {step: loss for step, loss, _ in logged(output)}


def test_a_branch_continues_a_run_without_touching_it(trunk, one_rank):
    """Stopped in the middle and started again by the same command.

    A run that decays from the start is beside it.
    """
    before = contents(trunk / "run")
    branch = trunk / "run-decay-4"

    complete(one_rank, trunk / "c.yaml", (*DECAY, "schedule.steps=8", "steps=6"))
    assert sorted(losses(branch)) == [5, 6]
    complete(one_rank, trunk / "c.yaml", (*DECAY, "schedule.steps=8"))
    assert contents(trunk / "run") == before
    complete(one_rank, trunk / "c.yaml", (*DECAY, f"output={trunk / 'straight'}"))

    straight = losses(trunk / "straight")

    assert losses(branch) == {step: straight[step] for step in range(5, 9)}
    assert losses(branch)[6] != losses(trunk / "run")[6]
    complete(one_rank, branch / "config.yaml")
    assert losses(branch) == {step: straight[step] for step in range(5, 9)}
    assert not (trunk / "run-decay-4-decay-4").exists()


def test_what_a_branch_cannot_be(trunk, capsys):
    def configured(*overrides):
        return load_config(TrainConfig, trunk / "c.yaml", overrides)

    assert dry_run(configured("schedule={name: wsd, decay_from: 2}", "steps=8")) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"resume from step-00000002 of {trunk / 'run'}: 2 of 8 steps are done" in said

    with refused("there is no checkpoint of step 3, only of 2, 4, 6"):
        dry_run(configured("schedule={name: wsd, decay_from: 3}", "steps=8"))

    with refused(r"another configuration:\n  seed: 7 in the checkpoint, 8 now"):
        dry_run(configured("schedule={name: wsd, decay_from: 2}", "steps=8", "seed=8"))

    with refused(r"branch_from: .* needs schedule\.decay_from"):
        configured(f"branch_from={trunk / 'run'}")
