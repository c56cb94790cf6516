from types import SimpleNamespace

import pytest
import torch
from torch.distributed import DistBackendError

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.train.distributed import process_group
from clozeline.train.distributed.process_group import device_of
from tests.refusals import refused


def totals(world):
    return world.sum_over_ranks([world.rank + 0.1, 2.0**-60, 2.0**53]), world.gather(
        world.rank * 10
    )


def test_totals_are_float64_and_equal(two_ranks):
    first, second = two_ranks.run(totals)
    assert first == second == ([0.1 + 1.1, 2.0**-59, 2.0**54], [0, 10])


def timeouts_of_later_groups(world):
    import deepspeed

    made = [torch.distributed.new_group(), deepspeed.comm.new_group([0, 1])]
    return [
        group._get_backend(torch.device("cpu")).options._timeout.total_seconds() for group in made
    ]


def test_groups_that_libraries_make_wait_no_longer_than_ours(two_ranks):
    """DeepSpeed reduces gradients in a group that it makes without a timeout.

    Torch's own is 1,800 s.
    """
    assert two_ranks.run(timeouts_of_later_groups) == [[600.0, 600.0], [600.0, 600.0]]


def fail_on_one(world):
    try:
        with world.sharing_errors():
            if world.rank == 1:
                raise IntegrityError("a block is broken")
    except Exception as error:
        return type(error).__name__, error.exit_code, str(error)

    return "", 0, ""


def test_error_of_one_rank_ends_all_with_its_code(two_ranks):
    assert two_ranks.run(fail_on_one) == [
        ("RemoteRankError", 65, "rank 1: a block is broken"),
        ("IntegrityError", 65, "a block is broken"),
    ]


@pytest.mark.parametrize(("local_rank", "gpus", "expected"), [(3, 1, 0), (3, 8, 3), (5, 4, 1)])
def test_a_rank_that_sees_one_gpu_takes_it(monkeypatch, local_rank, gpus, expected):
    """Under `srun --gpus-per-task=1` each rank sees its own GPU as number 0."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)

    assert device_of({"LOCAL_RANK": str(local_rank)}) == torch.device("cuda", expected)
    assert device_of({"LOCAL_RANK": str(local_rank), "DS_ACCELERATOR": "cpu"}) == torch.device(
        "cpu"
    )


def test_a_device_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for chosen in ("cuda", "xpu", ""):
        with refused(f"DS_ACCELERATOR={chosen} "):
            device_of({"LOCAL_RANK": "0", "DS_ACCELERATOR": chosen})


def test_two_ranks_on_one_gpu_are_a_mistake_of_the_start(monkeypatch):
    def refuse(**_):
        raise DistBackendError(
            "NCCL error in: NCCLUtils.cpp:93, invalid usage (run with NCCL_DEBUG=WARN for details)"
        )

    monkeypatch.setattr(
        process_group, "load_deepspeed", lambda: SimpleNamespace(init_distributed=refuse)
    )
    variables = {
        "RANK": 1,
        "LOCAL_RANK": 1,
        "WORLD_SIZE": 2,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": 1,
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, str(value))
    with pytest.raises(ConfigurationError, match="two ranks on one GPU; rank 1 of 2 sees"):
        process_group.join_process_group()
