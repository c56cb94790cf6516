from __future__ import annotations

import socket

import pytest
import torch

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.train.distributed.process_group import (
    World,
    describe_environment,
    describe_network,
    device_of,
    fill_environment,
)
from tests.distributed import RankPool


def test_one_process_by_default() -> None:
    environment: dict[str, str] = {}
    assert describe_environment(environment) == (0, 1)
    assert environment["MASTER_ADDR"] == "127.0.0.1"
    assert int(environment["MASTER_PORT"]) > 0


def test_slurm_variables_are_mapped() -> None:
    environment = {"SLURM_PROCID": "3", "SLURM_LOCALID": "1", "SLURM_NTASKS": "8", "MASTER_ADDR": "node7"}
    fill_environment(environment)
    found = {key: environment[key] for key in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}
    assert found == {
        "RANK": "3",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "8",
        "MASTER_ADDR": "node7",
        "MASTER_PORT": "29500",
    }


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("node7", "node7"),
        ("gpu-a01,gpu-b02", "gpu-a01"),
        ("node[003-006,9],login", "node003"),
        ("rack[2-3]n[10,12-14]", "rack2n10"),
        ("n[8].cluster,n9.cluster", "n8.cluster"),
    ],
)
def test_tasks_of_srun_meet_on_its_first_node(nodes: str, first: str) -> None:
    """At a port by the job, so that two jobs of one node do not meet."""
    step = {"SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NODELIST": nodes, "SLURM_NTASKS": "4", "SLURM_JOB_ID": "70123"}
    assert describe_environment(task := {"SLURM_PROCID": "2", "SLURM_LOCALID": "0", **step}) == (2, 4)
    assert (task["MASTER_ADDR"], task["MASTER_PORT"]) == (first, "29623")


def test_a_script_of_sbatch_is_one_process() -> None:
    """It has the variables of the job, and is no task of it."""
    assert describe_environment({"SLURM_PROCID": "0", "SLURM_NTASKS": "16", "SLURM_JOB_NODELIST": "n[1-2]"}) == (0, 1)


def test_launchers_variables_win() -> None:
    environment = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "9"}
    fill_environment(extended := {**environment, "SLURM_PROCID": "0"})
    assert {key: extended[key] for key in environment} == environment


@pytest.mark.parametrize("broken", [{"RANK": "x"}, {"RANK": "2", "WORLD_SIZE": "2"}])
def test_impossible_ranks_are_refused(broken: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="environment: "):
        describe_environment(dict(broken))


def totals(world: World) -> tuple[list[float], list[int]]:
    return world.total([world.rank + 0.1, 2.0**-60, 2.0**53]), world.gather(world.rank * 10)


def test_totals_are_float64_and_equal(two_ranks: RankPool) -> None:
    first, second = two_ranks.run(totals)
    assert first == second == ([0.1 + 1.1, 2.0**-59, 2.0**54], [0, 10])


def fail_on_one(world: World) -> tuple[str, int, str]:
    try:
        with world.together():
            if world.rank == 1:
                raise IntegrityError("a block is broken")
    except Exception as error:
        return type(error).__name__, error.exit_code, str(error)  # type: ignore[attr-defined]
    return "", 0, ""


def test_error_of_one_rank_ends_all_with_its_code(two_ranks: RankPool) -> None:
    assert two_ranks.run(fail_on_one) == [
        ("PeerError", 65, "rank 1: a block is broken"),
        ("IntegrityError", 65, "a block is broken"),
    ]


@pytest.mark.parametrize(("local_rank", "gpus", "expected"), [(3, 1, 0), (3, 8, 3), (5, 4, 1)])
def test_a_rank_that_sees_one_gpu_takes_it(
    monkeypatch: pytest.MonkeyPatch, local_rank: int, gpus: int, expected: int
) -> None:
    """Under `srun --gpus-per-task=1` each rank sees its own GPU as number 0."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert device_of({"LOCAL_RANK": str(local_rank)}) == torch.device("cuda", expected)
    assert device_of({"LOCAL_RANK": str(local_rank), "DS_ACCELERATOR": "cpu"}) == torch.device("cpu")


def test_the_interface_of_gloo_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert describe_network({"GLOO_SOCKET_IFNAME": "ib0"}) == "gloo through ib0 (GLOO_SOCKET_IFNAME)"
    monkeypatch.setattr(socket, "gethostbyname", lambda _: "127.0.0.1")
    assert describe_network({}).startswith("gloo through lo, which has the host's address 127.0.0.1")

    def fail(_: str) -> str:
        raise socket.gaierror("unknown")

    monkeypatch.setattr(socket, "gethostbyname", fail)
    assert "set GLOO_SOCKET_IFNAME" in describe_network({})
