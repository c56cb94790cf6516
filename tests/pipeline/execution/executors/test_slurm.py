"""The contract with Slurm's commands, against a stand-in: submit, poll, cancel, retry.

A real one: test_real_slurm.
"""

import json
import subprocess

import pytest

from clozeline.command import run_command
from clozeline.errors import PartialFailureError, StorageError
from clozeline.pipeline.execution.executors import slurm
from clozeline.pipeline.execution.progress import Progress
from clozeline.pipeline.execution.stage_run import StageRun
from clozeline.pipeline.execution.unit_record import KnownRecords
from clozeline.pipeline.recipe import ExecutorConfig, Recipe
from tests.launchers import stand_in
from tests.pipeline.execution.executors.cluster import install
from tests.pipeline.execution.toy_stage import ToyStage, tree

OPTIONS = {
    "partition": "cpu",
    "time": "01:00:00",
    "poll_s": 0.01,
    "driver_bytes": 0,
    "sbatch_args": {"account": "a b"},
}


def execute(output, *, name="slurm", tasks=4, fault="", before=0, workers=None, **given):
    options = {**OPTIONS, **given} if name == "slurm" else {}
    executor = ExecutorConfig(name=name, tasks=tasks, workers=workers, options=options)
    toy = ToyStage(Recipe(corpus="toy", output=output, executor=executor), fault=fault)
    run = StageRun(toy, KnownRecords())
    run.execute(Progress(), before)
    return run


def data(folder):
    return {
        name: content
        for name, content in tree(folder / "dedup").items()
        if not name.startswith("logs/")
    }


def calls(cluster, command):
    return [
        line for line in (cluster / "calls").read_text().splitlines() if line.startswith(command)
    ]


def test_jobs_give_the_bytes_of_local_processes_and_lost_tasks_are_submitted_again(
    tmp_path, monkeypatch
):
    """Arrays are as large as the cluster allows, here two tasks."""
    cluster = install(tmp_path / "cluster", monkeypatch, {"1_1": "NODE_FAIL"})
    execute(tmp_path / "slurm")
    execute(tmp_path / "local", name="local")

    assert data(tmp_path / "slurm") == data(tmp_path / "local")

    submitted = calls(cluster, "sbatch")

    assert [word for line in submitted for word in line.split() if "array" in word] == [
        *["--array=0-1"] * 2,
        "--array=0-1",
        "--array=0-1",  # units 1 and 5 of the lost task again; the second pass
    ]

    for word in (
        "--partition=cpu",
        "--time=01:00:00",
        "--cpus-per-task=1",
        "--mem-per-cpu=2G",
        "--account=a b",
    ):
        assert f" {word} " in submitted[0]

    assert "qos" not in submitted[0]

    logs = tmp_path / "slurm/dedup/logs/square"

    assert sorted(path.name for path in logs.glob("*.out")) == [
        f"{task}.out" for task in ("1_0", "2_0", "2_1", "3_0", "3_1")
    ]
    assert (logs / "tasks.pickle").stat().st_mode & 0o777 == 0o600


def test_a_pass_of_little_input_is_not_submitted(tmp_path, monkeypatch):
    cluster = install(tmp_path / "cluster", monkeypatch)
    execute(tmp_path / "small", before=999, driver_bytes=1000)

    assert not (cluster / "calls").exists()

    execute(tmp_path / "large", before=1000, driver_bytes=1000)

    assert len(calls(cluster, "sbatch")) == 3
    assert data(tmp_path / "small") == data(tmp_path / "large")


@pytest.mark.slow
def test_tasks_beyond_the_limit_of_the_cluster_wait_and_this_is_said(tmp_path, monkeypatch, capsys):
    cluster = install(tmp_path / "cluster", monkeypatch, room=3)
    execute(tmp_path / "slurm", tasks=6)
    sizes = [word for line in calls(cluster, "sbatch") for word in line.split() if "array" in word]

    assert sizes[:4] == ["--array=0-0"] * 4, "six and three are too many; the fourth is refused"

    said = " ".join(capsys.readouterr().err.split())

    assert said.count("3 of 6 tasks are submitted; the others wait for the cluster") == 1
    assert "(QOSMaxSubmitJobPerUserLimit" in said

    execute(tmp_path / "local", name="local")

    assert data(tmp_path / "slurm") == data(tmp_path / "local")


@pytest.mark.slow
def test_workers_are_kept_to_by_one_array_at_a_time(tmp_path, monkeypatch):
    cluster = install(tmp_path / "cluster", monkeypatch)
    execute(tmp_path / "slurm", workers=1, sbatch_args={"mem": "4G", "exclusive": ""})
    lines = [line.split()[0] for line in (cluster / "calls").read_text().splitlines()]
    first, second, *_ = (place for place, word in enumerate(lines) if word == "sbatch")
    submitted = calls(cluster, "sbatch")[0]

    assert "--array=0-1%1" in submitted
    assert "--mem=4G --exclusive" in submitted
    assert "--mem-per-cpu" not in submitted, "Slurm takes one of both"
    assert "squeue" in lines[first:second]


def test_a_canceled_task_is_named_with_its_log_and_nothing_is_submitted_any_more(
    tmp_path, monkeypatch
):
    cluster = install(
        tmp_path / "cluster", monkeypatch, {"1_0": "CANCELLED", "1_1": "OUT_OF_MEMORY"}, room=2
    )
    with pytest.raises(PartialFailureError) as caught:
        execute(tmp_path / "slurm")

    assert caught.value.exit_code == 69

    log = tmp_path / "slurm/dedup/logs/square/1_0.out"

    assert (
        f"task 0 of Slurm job 1 ended as CANCELLED before this unit was done; its log: {log}"
        in str(caught.value)
    )
    assert "task 1 of Slurm job 1 ended as OUT_OF_MEMORY" in str(caught.value)
    submitted = [line.split()[-1] for line in calls(cluster, "sbatch")]
    assert submitted.count("0") == 1, "the first two tasks are not submitted again"


def test_jobs_of_a_driver_that_stopped_are_canceled_by_it_or_by_the_next_one(tmp_path, monkeypatch):
    cluster = install(tmp_path / "cluster", monkeypatch)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(
            slurm.Slurm, "_wait", lambda self, arrays, *rest: arrays.submit() or interrupted()
        )

        assert run_command(lambda: execute(tmp_path / "stopped") and 0) == 130
        assert len(calls(cluster, "scancel")) == 1
        # it was killed
        patch.setattr(
            slurm, "_command", lambda *words: subprocess.CompletedProcess(words, 0, "", "")
        )

        assert run_command(lambda: execute(tmp_path / "killed") and 0) == 130

    assert len(calls(cluster, "scancel")) == 1

    execute(tmp_path / "killed")

    assert len(calls(cluster, "scancel")) == 2


def test_variables_that_are_options_of_our_commands_are_not_passed_on(tmp_path, monkeypatch):
    cluster = install(tmp_path / "cluster", monkeypatch)

    for name in (
        "SLURM_MEM_PER_NODE",
        "SBATCH_EXPORT",
        "SQUEUE_STATES",
        "SRUN_CPUS_PER_TASK",
        "SLURM_CONF",
        "OTHER",
    ):
        monkeypatch.setenv(name, "x")

    stand_in(
        cluster / "bin",
        "sbatch",
        f"import json, os; json.dump(dict(os.environ), open({str(tmp_path / 'e')!r}, 'w')); exit(1)",
    )

    with pytest.raises(StorageError, match="sbatch refused"):
        execute(tmp_path / "slurm")
    given = {
        name for name, value in json.loads((tmp_path / "e").read_text()).items() if value == "x"
    }

    assert given == {"SLURM_CONF", "OTHER"}


def test_a_cluster_that_is_not_there_or_does_not_answer_is_named(tmp_path, monkeypatch):
    cluster = install(tmp_path / "cluster", monkeypatch)
    monkeypatch.setattr(slurm, "_SILENT_QUERIES", 1)
    stand_in(cluster / "bin", "squeue", "raise SystemExit(1)")
    with pytest.raises(StorageError, match="squeue does not answer"):
        execute(tmp_path / "silent")

    assert len(calls(cluster, "scancel")) == 1

    stand_in(cluster / "bin", "squeue", "")
    stand_in(
        cluster / "bin",
        "sbatch",
        "raise SystemExit('sbatch: error: invalid partition specified: cpu')",
    )

    with pytest.raises(
        StorageError, match="sbatch refused the job: invalid partition specified: cpu"
    ):
        execute(tmp_path / "refused")

    (cluster / "bin" / "sbatch").unlink()
    monkeypatch.setenv("PATH", str(cluster / "bin"))
    with pytest.raises(StorageError, match="the command sbatch is missing; start on a login node"):
        execute(tmp_path / "absent")


def prepare(folder, patch):
    """For the contract of executors: the stand-in of a cluster."""
    install(folder / "cluster", patch)
    return OPTIONS
