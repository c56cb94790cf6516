import pytest

from clozeline.errors import ConfigurationError
from clozeline.train.distributed.launcher import describe_environment, fill_environment


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("node7", "node7"),
        ("node[003-006,9],login", "node003"),
        ("rack[2-3]n[10,12-14]", "rack2n10"),
        ("n[8].cluster,n9.cluster", "n8.cluster"),
    ],
)
def test_tasks_of_srun_meet_on_its_first_node(nodes, first):
    """At a port by the job, so that two jobs of one node do not meet."""
    step = {
        "SLURM_STEP_NUM_TASKS": "4",
        "SLURM_STEP_NODELIST": nodes,
        "SLURM_NTASKS": "4",
        "SLURM_JOB_ID": "70123",
    }

    assert describe_environment(task := {"SLURM_PROCID": "2", "SLURM_LOCALID": "1", **step}) == (
        2,
        4,
    )
    assert (
        task["MASTER_ADDR"],
        task["MASTER_PORT"],
        task["LOCAL_RANK"],
    ) == (first, "29623", "1")


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "16", "SLURM_JOB_NODELIST": "n[1-2]"},
        {
            "SLURM_PROCID": "0",
            "SLURM_NTASKS": "2",
            "SLURM_STEP_NUM_TASKS": "1",
            "MASTER_ADDR": "n1",
        },
        {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "192.0.2.1", "MASTER_PORT": "29500"},
    ],
)
def test_one_process_meets_nobody(variables):
    """A script of `sbatch` has the variables of the job, and is no task of it."""
    assert describe_environment(variables) == (0, 1)
    assert variables["MASTER_ADDR"] == "127.0.0.1"
    assert variables["MASTER_PORT"] != "29500"


@pytest.mark.parametrize(
    "variables",
    [
        {"WORLD_SIZE": "2"},
        {"RANK": "0"},
        {"WORLD_SIZE": "4", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "8"},
        {"RANK": "0", "WORLD_SIZE": "2"},
        {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "n1", "MASTER_PORT": "auto"},
        {"RANK": "0", "WORLD_SIZE": ""},
        *(
            {"WORLD_SIZE": "2", "MASTER_ADDR": "n1", "MASTER_PORT": "29500", "RANK": rank}
            for rank in ("x", "2", "-1")
        ),
    ],
)
def test_variables_that_are_set_in_part_or_impossible_are_refused(variables):
    with pytest.raises(ConfigurationError, match="environment: "):
        describe_environment(variables)


def test_a_script_may_set_the_number_of_tasks_for_srun():
    step = {
        "SLURM_PROCID": "1",
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_NODELIST": "n1",
        "LOCAL_RANK": "7",
    }

    assert describe_environment(task := {"WORLD_SIZE": "2", "SLURM_LOCALID": "1", **step}) == (1, 2)
    assert task["LOCAL_RANK"] == "1"


def test_launchers_variables_win():
    environment = {
        "RANK": "1",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "a",
        "MASTER_PORT": "9",
    }

    fill_environment(extended := {**environment, "SLURM_PROCID": "0"})

    assert {key: extended[key] for key in environment} == environment
