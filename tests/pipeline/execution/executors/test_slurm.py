"""The contract with Slurm's commands, against a stand-in: submit, poll, cancel, retry.

A real one: test_real_slurm.
"""

import json
import subprocess

import pytest

from clozeline.command import run_command
from clozeline.errors import PartialFailureError, StorageError
from clozeline.pipeline.execution.executors import slurm
from tests.launchers import stand_in
from tests.pipeline.execution.executors.cluster import install
from tests.pipeline.execution.toy_stage import run_toy

OPTIONS = {
    "partition": "cpu",
    "time": "01:00:00",
    "poll_s": 0.01,
    "driver_bytes": 0,
    "sbatch_args": {"account": "a b"},
}


def execute(output, **options):
    return run_toy(output, name="slurm", **({"tasks": 4} | OPTIONS | options))


def calls(cluster, command):
    lines = (cluster / "calls").read_text().splitlines() if (cluster / "calls").exists() else []
    return [line for line in lines if line.startswith(command)]


def arrays(cluster):
    words = " ".join(calls(cluster, "sbatch")).split()
    return [word.partition("=")[2] for word in words if word.startswith("--array")]


def test_lost_tasks_are_submitted_again_with_the_options_given(tmp_path, monkeypatch):
    """Arrays are as large as the cluster allows, here two tasks."""
    cluster = install(tmp_path / "cluster", monkeypatch, {"1_1": "NODE_FAIL"})
    execute(tmp_path)

    # units 1 and 5 of the lost task again; the second pass
    assert arrays(cluster) == ["0-1", "0-1", "0-1", "0-1"]

    given = "--partition=cpu --time=01:00:00 --cpus-per-task=1 --requeue "
    given += "--mem-per-cpu=2G --account=a b "

    assert given in calls(cluster, "sbatch")[0]

    logs = tmp_path / "dedup/logs/square"

    assert sorted(path.name for path in logs.glob("*.out")) == [
        f"{task}.out" for task in ("1_0", "2_0", "2_1", "3_0", "3_1")
    ]
    assert not [*tmp_path.rglob("tasks.pickle")], "it holds the recipe"


def test_a_pass_of_little_input_is_not_submitted(tmp_path, monkeypatch):
    cluster = install(tmp_path / "cluster", monkeypatch)
    for before, jobs in ((999, 0), (1000, 3)):
        execute(tmp_path / str(before), before=before, driver_bytes=1000)

        assert len(calls(cluster, "sbatch")) == jobs


@pytest.mark.slow
def test_tasks_beyond_the_limit_of_the_cluster_wait_and_this_is_said(tmp_path, monkeypatch, capsys):
    cluster = install(tmp_path / "cluster", monkeypatch, room=3)
    execute(tmp_path, tasks=6)
    said = " ".join(capsys.readouterr().err.split())

    assert arrays(cluster)[:4] == ["0-0"] * 4, "six and three are too many; the fourth is refused"
    assert said.count("3 of 6 tasks are submitted; the others wait for the cluster") == 1


@pytest.mark.slow
def test_workers_are_kept_to_by_one_array_at_a_time(tmp_path, monkeypatch):
    cluster = install(tmp_path / "cluster", monkeypatch)
    execute(tmp_path, workers=1, sbatch_args={"mem": "4G", "exclusive": ""})
    lines = [line.split()[0] for line in calls(cluster, "")]
    first, second, *_ = (place for place, word in enumerate(lines) if word == "sbatch")

    assert arrays(cluster)[0] == "0-1%1"
    assert "--requeue --mem=4G --exclusive" in calls(cluster, "sbatch")[0], "without mem-per-cpu"
    assert "squeue" in lines[first:second]


def test_a_canceled_task_is_named_with_its_log_and_nothing_is_submitted_any_more(
    tmp_path, monkeypatch
):
    ends = {"1_0": "CANCELLED", "1_1": "OUT_OF_MEMORY"}
    cluster = install(tmp_path / "cluster", monkeypatch, ends, room=2)
    with pytest.raises(PartialFailureError) as caught:
        execute(tmp_path)

    log = tmp_path / "dedup/logs/square/1_0.out"
    ended = f"task 0 of Slurm job 1 ended as CANCELLED before this unit was done; its log: {log}"

    assert caught.value.exit_code == 69
    assert ended in str(caught.value)
    assert "task 1 of Slurm job 1 ended as OUT_OF_MEMORY" in str(caught.value)

    firsts = [line.split()[-1] for line in calls(cluster, "sbatch")]

    assert firsts.count("0") == 1, "the first two tasks are not submitted again"


def test_jobs_of_a_driver_that_stopped_are_canceled_by_it_or_by_the_next_one(tmp_path, monkeypatch):
    cluster = install(tmp_path / "cluster", monkeypatch)

    def stop(self, arrays, *_):
        arrays.submit()
        raise KeyboardInterrupt

    def fail(*words):
        return subprocess.CompletedProcess(words, 0, "", "")

    with monkeypatch.context() as patch:
        patch.setattr(slurm.Slurm, "_wait", stop)

        assert run_command(lambda: execute(tmp_path / "stopped")) == 130
        assert len(calls(cluster, "scancel")) == 1

        patch.setattr(slurm, "_command", fail)  # it was killed

        assert run_command(lambda: execute(tmp_path / "killed")) == 130

    execute(tmp_path / "killed")

    assert len(calls(cluster, "scancel")) == 2


def test_variables_that_are_options_of_our_commands_are_not_passed_on(tmp_path, monkeypatch):
    cluster = install(tmp_path / "cluster", monkeypatch)
    for name in ("SLURM_MEM_PER_NODE", "SBATCH_EXPORT", "SQUEUE_STATES", "SLURM_CONF", "OTHER"):
        monkeypatch.setenv(name, "x")
    file = tmp_path / "variables"
    code = f"import json, os; json.dump(dict(os.environ), open({str(file)!r}, 'w')); exit(1)"
    stand_in(cluster / "bin", "sbatch", code)
    with pytest.raises(StorageError, match="sbatch refused"):
        execute(tmp_path)
    given = json.loads(file.read_text())

    assert {name for name, value in given.items() if value == "x"} == {"SLURM_CONF", "OTHER"}


@pytest.mark.parametrize(
    ("command", "code", "said", "canceled"),
    [
        ("squeue", "raise SystemExit(1)", "squeue does not answer", 1),
        ("sbatch", "exit('sbatch: error: bad partition')", "refused the job: bad partition", 0),
        ("sbatch", None, "the command sbatch is missing; start on a login node", 0),
    ],
)
def test_a_cluster_that_is_not_there_or_does_not_answer_is_named(
    tmp_path, monkeypatch, command, code, said, canceled
):
    cluster = install(tmp_path / "cluster", monkeypatch)
    monkeypatch.setattr(slurm, "_SILENT_QUERIES", 1)
    if code:
        stand_in(cluster / "bin", command, code)
    else:
        (cluster / "bin" / command).unlink()
        monkeypatch.setenv("PATH", str(cluster / "bin"))
    with pytest.raises(StorageError, match=said):
        execute(tmp_path)

    assert len(calls(cluster, "scancel")) >= canceled


def prepare(folder, patch):
    """For the contract of executors: the stand-in of a cluster."""
    install(folder / "cluster", patch)
    return OPTIONS
