"""The files of configs/launch, with stand-ins for the commands of Slurm, and in a real one of one
node."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clozeline.configuration.config import load_config
from clozeline.run_status import read_status
from clozeline.train.configuration.config import TrainConfig
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
ONE_NODE = [
    "--nodes=1",
    "--ntasks-per-node=2",
    "--gpus-per-node=0",
    "--cpus-per-task=1",
    "--parsable",
]
PATIENCE_S = 240.0


@pytest.fixture(scope="module")
def slurm():
    """Return the variables of a cluster, with the commands of this environment on the path."""
    with one_node_slurm.one_node() as variables:
        kept = {
            key: value
            for key, value in os.environ.items()
            if key not in ("RANK", "WORLD_SIZE", "MASTER_PORT")
        }

        variables["PATH"] = f"{Path(sys.executable).parent}:{variables['PATH']}"
        yield {**kept, **variables, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
@pytest.mark.parametrize("code", [0, 75, 71], ids=["complete", "stopped", "failed"])
def test_a_job_that_was_stopped_is_queued_again_and_no_other(tmp_path, script, code):
    """`srun` and `scontrol` are programs that note their words."""
    programs = tmp_path / "bin"
    stand_in(programs, "srun", noted(tmp_path / "started", code))
    stand_in(programs, "scontrol", noted(tmp_path / "queued"))
    job = {
        "SLURM_JOB_ID": "17",
        "SLURM_ARRAY_TASK_ID": "3",
        "PATH": f"{programs}:{os.environ['PATH']}",
    }

    words = ["bash", str(script), "--config", DEMO, "data.shards=s", "output=o"]

    assert subprocess.run(words, env=os.environ | job, check=False).returncode == code

    queued = tmp_path / "queued"

    assert (queued.read_text() if queued.exists() else "") == ("requeue 17\n" if code == 75 else "")

    command, _, file, *overrides = (
        (tmp_path / "started").read_text().partition("clozeline ")[2].split()
    )

    assert command == "train"

    config = load_config(TrainConfig, ROOT / file, overrides)
    expected = (3, "runs/seed-3") if script.name == "array.sh" else (1, "o")

    assert (config.seed, str(config.output)) == expected


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_job_is_told_before_its_time_is_over_and_may_be_queued_again(script):
    options = [
        line.split(maxsplit=1)[1]
        for line in script.read_text().splitlines()
        if line.startswith("#SBATCH")
    ]

    assert {"--signal=TERM@300", "--requeue", "--open-mode=append"} <= set(options)
    assert script.read_text().index("srun") > script.read_text().rindex("#SBATCH"), (
        "later lines are not read"
    )


@pytest.mark.slow
@pytest.mark.skipif(bool(one_node_slurm.MISSING), reason=one_node_slurm.WHY)
def test_a_job_of_slurm_is_stopped_and_continues_to_the_bit(two_ranks, slurm, tmp_path):
    """The two tasks get SIGTERM after the first step, as before the end of their time."""
    shards = write_masked_sets(tmp_path / "corrupt")
    length = {"steps": 400, "schedule__steps": 400, "checkpoint__every": None}
    config = write_config(tmp_path / "train.yaml", shards, tmp_path / "run", **length)

    assert two_ranks.run(start, config, [f"output={tmp_path / 'straight'}"]) == [(0, "")] * 2

    log = tmp_path / "log"
    words = [*ONE_NODE, f"--output={log}", str(LAUNCH / "slurm.sh"), "--config", str(config)]
    job = subprocess.run(
        ["sbatch", *words], cwd=ROOT, env=slurm, capture_output=True, text=True, check=True
    ).stdout
    metrics = tmp_path / "run" / "metrics.jsonl"
    deadline = time.monotonic() + PATIENCE_S

    def until(condition):
        while not condition():
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)

    until(lambda: metrics.exists() and metrics.stat().st_size)
    # the tasks, and not the script
    subprocess.run(["scancel", "--signal=TERM", job.strip()], env=slurm, check=True)
    until(
        lambda: (status := read_status(tmp_path / "run")) is not None and status.state == "stopped"
    )

    assert 0 < len(logged(tmp_path / "run")) < 400

    state = ["squeue", "--noheader", "--states=all", f"--jobs={job.strip()}", "--format=%T"]
    until(lambda: one_node_slurm.ask(slurm, *state).strip() == "COMPLETED")

    assert logged(tmp_path / "run") == logged(tmp_path / "straight")
