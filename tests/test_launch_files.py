"""The files of configs/launch, started by a real Slurm of one node."""

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clozeline.configuration.config import load_config
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.logs.journal import read_status
from tests import one_node_slurm
from tests.distributed import ROOT
from tests.launchers import noted, stand_in
from tests.train.masked_set import write_config, write_masked_sets
from tests.train.runs import logged
from tests.train.test_run import start

LAUNCH = ROOT / "configs" / "launch"
SCRIPTS = sorted(LAUNCH.glob("*.sh"))
DEMO = "configs/recipes/demo/train.yaml"
# The node of the tests has no GPUs, and few cores.
ONE_NODE = ["--nodes=1", "--gpus-per-node=0", "--cpus-per-task=1", "--parsable"]
PATIENCE_S = 240.0

on_slurm = pytest.mark.skipif(bool(one_node_slurm.MISSING), reason=one_node_slurm.WHY)


@pytest.fixture(scope="module")
def slurm():
    """Return the variables of a cluster, with the commands of this environment on the path."""
    with one_node_slurm.one_node() as variables:
        kept = {key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE", "MASTER_PORT")}
        variables["PATH"] = f"{Path(sys.executable).parent}:{variables['PATH']}"
        yield {**kept, **variables, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"}


def submit(environment, *words):
    command = ["sbatch", *ONE_NODE, *words]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def end_of(environment, job):
    """Wait for the end of a job; return its state."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        state = one_node_slurm.ask(environment, "squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T")
        if state.strip() in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"):
            return state.strip()
        time.sleep(0.2)
    raise TimeoutError(state)


@pytest.mark.slow
@on_slurm
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
@pytest.mark.parametrize(
    ("codes", "state", "starts"),
    [((0,), "COMPLETED", 1), ((75, 0), "COMPLETED", 2), ((71,), "FAILED", 1)],
    ids=["complete", "stopped", "failed"],
)
def test_a_job_that_was_stopped_is_queued_again_and_no_other(slurm, tmp_path, script, codes, state, starts):
    """`clozeline` is a program that notes its words, and ends with the first code, then the second."""
    started = tmp_path / "started"
    program = noted(started).replace("sys.exit(0)", f"sys.exit({codes}[len(open({str(started)!r}).readlines()) - 1])")
    stand_in(tmp_path / "bin", "clozeline", program)
    given = ["--config", DEMO, "data.shards=s", "output=o"]
    array = ["--array=3"] if script.name == "array.sh" else []
    environment = {**slurm, "PATH": f"{tmp_path / 'bin'}:{slurm['PATH']}"}
    job = submit(environment, "--ntasks-per-node=1", f"--output={tmp_path / 'log'}", *array, str(script), *given)
    assert end_of(environment, job) == state, (tmp_path / "log").read_text()
    lines = started.read_text().splitlines()
    assert len(lines) == starts
    command, _, file, *overrides = shlex.split(lines[0])
    assert command == "train"
    config = load_config(TrainConfig, ROOT / file, overrides)
    expected = (3, "runs/seed-3") if script.name == "array.sh" else (1, "o")
    assert (config.seed, str(config.output)) == expected


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_job_is_told_before_its_time_is_over_and_may_be_queued_again(script):
    options = [line.split(maxsplit=1)[1] for line in script.read_text().splitlines() if line.startswith("#SBATCH")]
    assert {"--signal=TERM@300", "--requeue", "--open-mode=append"} <= set(options)
    assert script.read_text().index("srun") > script.read_text().rindex("#SBATCH"), "later lines are not read"


@pytest.mark.slow
@on_slurm
def test_a_job_of_slurm_is_stopped_and_continues_to_the_bit(two_ranks, slurm, tmp_path):
    """The two tasks get SIGTERM after the first step, as before the end of their time."""
    shards = write_masked_sets(tmp_path / "corrupt")
    length = {"steps": 400, "schedule__steps": 400, "checkpoint__every": None}
    config = write_config(tmp_path / "train.yaml", shards, tmp_path / "run", **length)
    assert two_ranks.run(start, config, [f"output={tmp_path / 'straight'}"]) == [(0, "")] * 2
    log = tmp_path / "log"
    words = ["--ntasks-per-node=2", f"--output={log}", str(LAUNCH / "slurm.sh"), "--config", str(config)]
    job = submit(slurm, *words)
    metrics, deadline = tmp_path / "run" / "metrics.jsonl", time.monotonic() + PATIENCE_S
    while not metrics.exists() or not metrics.stat().st_size:
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    subprocess.run(["scancel", "--signal=TERM", job], env=slurm, check=True)  # the tasks, and not the script
    while (status := read_status(tmp_path / "run")) is None or status.state != "stopped":
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    assert 0 < len(logged(tmp_path / "run")) < 400
    assert end_of(slurm, job) == "COMPLETED", log.read_text()
    assert logged(tmp_path / "run") == logged(tmp_path / "straight")


@pytest.mark.slow
@on_slurm
def test_a_script_without_srun_is_one_process_whatever_its_job_has(slurm, tmp_path):
    config = write_config(tmp_path / "train.yaml", write_masked_sets(tmp_path / "corrupt"), tmp_path / "run", steps=2)
    environment = {**slurm, "MASTER_ADDR": "192.0.2.1", "MASTER_PORT": "29500"}  # an address that is nobody's
    log = tmp_path / "log"
    job = submit(environment, "--ntasks=2", f"--output={log}", f"--wrap=clozeline train --config {config}")
    assert end_of(environment, job) == "COMPLETED", log.read_text()
    assert len(logged(tmp_path / "run")) == 2
