"""Array jobs of Slurm, against stand-ins for its commands: the bytes of local processes, and how tasks end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clozeline.command import run_command
from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError, PartialFailureError, StorageError
from clozeline.pipeline import all_stages
from clozeline.pipeline.execution.progress import Progress
from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.execution.runner import StageRun
from clozeline.pipeline.execution.stages import stage_key
from clozeline.pipeline.recipe import ExecutorConfig, Recipe
from tests.launchers import noted, stand_in
from tests.pipeline.execution.executors.cluster import install
from tests.pipeline.execution.toy_stage import ToyStage, tree
from tests.pipeline.miniature import RECIPE, write_corpus, write_recipe

OPTIONS = {"partition": "cpu", "time": "01:00:00", "poll_s": 0.01, "max_array_size": 2, "sbatch_args": {"account": "a"}}


def execute(output: Path, *, name: str = "slurm", tasks: int = 4, fault: str = "", **given: object) -> StageRun[object]:
    options = {**OPTIONS, **given} if name == "slurm" else {}
    executor = ExecutorConfig(name=name, tasks=tasks, workers=1, options=options)
    toy = ToyStage(Recipe(corpus="toy", output=output, executor=executor), fault=fault)
    run = StageRun(toy, stage_key(toy, "upstream"), False)
    run.execute(Progress())
    return run


def data(folder: Path) -> dict[str, bytes]:
    return {name: content for name, content in tree(folder / "dedup").items() if not name.startswith("logs/")}


def test_jobs_give_the_bytes_of_local_processes_within_the_limits_of_the_cluster(tmp_path, monkeypatch):
    cluster = install(tmp_path / "cluster", monkeypatch)
    execute(tmp_path / "slurm")
    execute(tmp_path / "local", name="local")
    assert data(tmp_path / "slurm") == data(tmp_path / "local")
    calls = (cluster / "calls").read_text()
    assert calls.count("sbatch") == 3  # two arrays, then one; and none for statistics
    logs = tmp_path / "slurm/dedup/logs/square"
    script = (logs / "launch_script.slurm").read_text()
    for line in (
        "--array=0-1%1",
        "--partition=cpu",
        "--time=01:00:00",
        "--cpus-per-task=1",
        "--account=a",
        "--requeue",
    ):
        assert f"#SBATCH {line}\n" in script, script
    assert "qos" not in script
    assert sorted(path.name for path in logs.glob("*.out")) == ["1_0.out", "1_1.out", "2_0.out", "2_1.out"]
    assert (logs / "executor.pik").stat().st_mode & 0o777 == 0o600
    assert not (logs / "slurm_job").exists()
    assert execute(tmp_path / "slurm").missing() == []
    assert (cluster / "calls").read_text() == calls


@pytest.mark.slow
def test_a_task_that_failed_is_submitted_again(tmp_path, monkeypatch):
    cluster = install(tmp_path / "cluster", monkeypatch, {"1_1": "NODE_FAIL"})
    execute(tmp_path / "slurm")
    execute(tmp_path / "local", name="local")
    assert data(tmp_path / "slurm") == data(tmp_path / "local")
    assert (cluster / "calls").read_text().count("sbatch") == 4


@pytest.mark.slow
def test_a_worker_killed_again_and_again_is_named_with_its_state_and_log(tmp_path, monkeypatch):
    install(tmp_path / "cluster", monkeypatch)
    with pytest.raises(PartialFailureError) as caught:
        execute(tmp_path / "slurm", tasks=1, fault="die always")
    assert "task 0 of Slurm job 2 ended as FAILED before this unit was done" in str(caught.value)
    assert f"its log: {tmp_path}/slurm/dedup/logs/square/2_0.out" in str(caught.value)
    assert caught.value.exit_code == 69
    squares = tmp_path / "slurm/dedup/tmp"
    assert {path.name for path in squares.glob("*.txt")} >= {"000000.txt"}


@pytest.mark.slow
def test_a_cancelled_job_is_not_submitted_again(tmp_path, monkeypatch):
    cluster = install(tmp_path / "cluster", monkeypatch, {"1_0": "CANCELLED by 1000", "1_1": "OUT_OF_MEMORY"})
    with pytest.raises(PartialFailureError) as caught:
        execute(tmp_path / "slurm")
    assert "task 0 of Slurm job 1 ended as CANCELLED" in str(caught.value)
    assert "task 1 of Slurm job 1 ended as OUT_OF_MEMORY" in str(caught.value)
    assert (cluster / "calls").read_text().count("sbatch") == 2


def test_without_accounts_the_records_of_the_units_decide(tmp_path, monkeypatch):
    faults = {f"{job}_{task}": "CANCELLED" for job in (1, 2, 3, 4) for task in (0, 1)}
    cluster = install(tmp_path / "cluster", monkeypatch, {**faults, "accounts": "off"})
    with pytest.raises(PartialFailureError, match="task 1 of Slurm job 4 left the queue before this unit was done"):
        execute(tmp_path / "slurm")
    assert (cluster / "calls").read_text().count("sbatch") == 4


@pytest.mark.slow
def test_a_driver_that_stops_cancels_its_job_and_one_that_was_killed_does_so_at_its_next_start(tmp_path, monkeypatch):
    cluster = install(tmp_path / "cluster", monkeypatch)

    def interrupted(self: object, *_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("clozeline.pipeline.execution.executors.slurm.Slurm._wait", interrupted)
        assert run_command(lambda: execute(tmp_path / "slurm") and 0) == 130
    assert "scancel 1 2" in (cluster / "calls").read_text()
    for job in (1, 2):
        (cluster / f"{job}.states").unlink()  # as if scancel had never come: the job of a driver that was killed
    execute(tmp_path / "slurm")
    assert (cluster / "calls").read_text().count("scancel 1 2") == 2


@pytest.mark.usefixtures("default_signals")
def test_a_driver_that_loses_its_terminal_cancels_its_job(tmp_path, monkeypatch):
    """Its group gets SIGHUP a second time while `scancel` runs."""
    cluster = install(tmp_path / "cluster", monkeypatch)
    stand_in(cluster / "bin", "squeue", f"open({str(tmp_path / 'asked')!r}, 'w'); print('1_0')")
    wait = f"while not os.path.exists({str(tmp_path / 'again')!r}): time.sleep(0.02)\n"
    begin = f"import os, time\nopen({str(tmp_path / 'canceling')!r}, 'w')\n"
    stand_in(cluster / "bin", "scancel", begin + wait + noted(tmp_path / "cancelled"))
    recipe = write_recipe(tmp_path, "corpus: c\nclean: {}\n")
    words = [f"input={write_corpus(tmp_path / 'in', 5)}", f"output={tmp_path / 'out'}", "executor.name=slurm"]
    words.append("executor.options={partition: cpu, poll_s: 0.01}")
    command = [sys.executable, "-m", "clozeline", "pipeline", "--config", str(recipe), *words]
    with subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL) as driver:
        for name in ("asked", "canceling"):
            while not (tmp_path / name).exists():
                assert driver.poll() is None
                time.sleep(0.02)
            os.killpg(driver.pid, signal.SIGHUP)
        (tmp_path / "again").touch()
        assert driver.wait(120) == 75
    assert (tmp_path / "cancelled").read_text() == "1\n"


def test_a_cluster_that_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StorageError, match="there is no command sbatch; start on a login node"):
        execute(tmp_path / "slurm")


@pytest.mark.parametrize(
    ("executor", "message"),
    [
        ({"name": "slurm"}, "executor.options: slurm: 'partition' is missing"),
        ({"name": "slurm", "options": {"partition": "a", "tim": "1"}}, "unknown key 'tim'; did you mean 'time'"),
        ({"name": "slurm", "options": {"partition": "a\n#SBATCH --wrap=x"}}, "partition: String should match"),
        ({"name": "slum"}, "no 'slum' in pipeline/execution/executors; did you mean 'slurm'"),
        ({"options": {"partition": "a"}}, "executor.options: local: unknown key 'partition'"),
    ],
)
def test_wrong_options_are_named_before_anything_runs(executor, message):
    with pytest.raises(ConfigurationError) as caught:
        validate(Recipe, {"corpus": "c", "executor": executor}, "f")
    assert message in str(caught.value)


@pytest.mark.slow
def test_a_whole_recipe_has_the_same_bytes_from_jobs(tmp_path, monkeypatch):
    install(tmp_path / "cluster", monkeypatch)
    short = RECIPE[: RECIPE.index("  - {name: span_corruption")]
    arguments = ["--config", str(write_recipe(tmp_path, short)), f"input={write_corpus(tmp_path / 'in', 25)}"]
    slurm = ["executor.name=slurm", "executor.tasks=2", "executor.options={partition: cpu, poll_s: 0.01}"]
    assert main([*arguments, f"output={tmp_path / 'slurm'}", *slurm]) == 0
    assert main([*arguments, f"output={tmp_path / 'local'}"]) == 0
    for stage in all_stages():
        there = {name: data for name, data in tree(tmp_path / "slurm" / stage).items() if not name.startswith("logs/")}
        assert there == tree(tmp_path / "local" / stage), stage


_EIGHT = """
corpus: eight
plan: {unit_bytes: 10000}
clean: {language: null, filters: [{name: gopher_quality, words: [10, 100000]}]}
dedup: {near: null}
"""


@pytest.mark.slow
def test_eight_tasks_with_a_slow_node_a_lost_node_and_a_full_disk_end_with_the_same_bytes(
    tmp_path, monkeypatch, capsys
):
    """Tasks of one array run at the same time on one folder; what a fault leaves undone, the next start makes."""
    arguments = ["--config", str(write_recipe(tmp_path, _EIGHT)), f"input={write_corpus(tmp_path / 'in', 160)}"]
    assert main([*arguments, f"output={tmp_path / 'local'}"]) == 0
    faults = {"1_1": "slow 3", "1_2": "lost 0.2", "1_5": "full 2", "1_7": "slow 1"}
    cluster = install(tmp_path / "cluster", monkeypatch, faults)
    slurm = ["executor.name=slurm", "executor.tasks=8", "executor.options={partition: cpu, poll_s: 0.01}"]
    capsys.readouterr()
    assert main([*arguments, f"output={tmp_path / 'slurm'}", *slurm]) == 74
    said = capsys.readouterr().err
    assert "File too large" in said
    assert "Traceback" not in said
    jobs = len(list(cluster.glob("*.job")))
    assert jobs == 2  # the array, and the units of the lost node again
    units = len(list((tmp_path / "local/clean/records").glob("*.json")))
    assert units >= 16
    assert main([*arguments, f"output={tmp_path / 'slurm'}", *slurm]) == 0
    for stage in ("clean", "dedup"):
        there = {name: data for name, data in tree(tmp_path / "slurm" / stage).items() if not name.startswith("logs/")}
        assert there == tree(tmp_path / "local" / stage), stage
