"""The files of configs/launch, started as on a cluster, with stand-ins for its commands."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from clozeline.configuration.config import load_config
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.logs.status import read_status
from tests.distributed import ROOT, RankPool, free_port
from tests.launchers import PDSH, SRUN, noted, stand_in
from tests.train.masked_set import write_config, write_masked_sets
from tests.train.test_run import logged, start

LAUNCH = ROOT / "configs" / "launch"
SCRIPTS = sorted(LAUNCH.glob("*.sh"))
DEMO = "configs/recipes/demo/train.yaml"


def launched(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command with the stand-ins of a folder first on PATH."""
    kept = {key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE", "MASTER_PORT")}
    path = f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**kept, "PATH": path, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu", **variables}
    return subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
@pytest.mark.parametrize(("code", "again"), [(0, False), (75, True), (71, False)])
def test_a_job_that_was_stopped_is_queued_again_and_no_other(
    tmp_path: Path, script: Path, code: int, again: bool
) -> None:
    stand_in(tmp_path / "bin", "srun", noted(tmp_path / "started", code))
    stand_in(tmp_path / "bin", "scontrol", noted(tmp_path / "asked"))
    given = ["--config", DEMO, "data.shards=s", "output=o"]
    variables = {"SLURM_JOB_ID": "4711", "SLURM_ARRAY_TASK_ID": "3"}
    done = launched(tmp_path / "bin", "bash", str(script), *given, **variables)
    assert done.returncode == code, done.stderr
    asked = tmp_path / "asked"
    assert (asked.read_text() if asked.exists() else "") == ("requeue 4711\n" if again else "")
    option, program, command, _, file, *overrides = shlex.split((tmp_path / "started").read_text())
    assert (option, program, command) == ("--kill-on-bad-exit=1", "clozeline", "train")
    config = load_config(TrainConfig, ROOT / file, overrides)
    expected = (3, "runs/seed-3") if script.name == "array.sh" else (1, "o")
    assert (config.seed, str(config.output)) == expected


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_job_is_told_before_its_time_is_over_and_may_be_queued_again(script: Path) -> None:
    options = [line.split(maxsplit=1)[1] for line in script.read_text().splitlines() if line.startswith("#SBATCH")]
    assert {"--signal=TERM@300", "--requeue", "--open-mode=append"} <= set(options)
    assert script.read_text().index("srun") > script.read_text().rindex("#SBATCH"), "later lines are not read"


@pytest.mark.slow
def test_a_job_of_slurm_is_stopped_and_continues_to_the_bit(two_ranks: RankPool, tmp_path: Path) -> None:
    """The time of the job is over after the first step; what `scontrol` queues is started again."""
    shards = write_masked_sets(tmp_path / "corrupt")
    length = {"steps": 400, "schedule__steps": 400, "checkpoint__every": None}
    config = write_config(tmp_path / "train.yaml", shards, tmp_path / "run", **length)
    assert two_ranks.run(start, config, [f"output={tmp_path / 'straight'}"]) == [(0, "")] * 2
    stand_in(tmp_path / "bin", "srun", SRUN)
    stand_in(tmp_path / "bin", "scontrol", noted(tmp_path / "asked"))
    words = ["bash", str(LAUNCH / "slurm.sh"), "--config", str(config)]
    job = {"SLURM_JOB_ID": str(free_port()), "SLURM_NTASKS": "2", "SLURM_PROCID": "0"}
    first = launched(tmp_path / "bin", *words, **job, SIGNAL_AFTER=str(tmp_path / "run" / "metrics.jsonl"))
    assert first.returncode == 75, first.stderr
    status = read_status(tmp_path / "run")
    assert status is not None
    assert (status.state, (tmp_path / "asked").read_text()) == ("stopped", f"requeue {job['SLURM_JOB_ID']}\n")
    assert 0 < len(logged(tmp_path / "run")) < 400
    second = launched(tmp_path / "bin", *words, **job)
    assert second.returncode == 0, second.stderr
    assert logged(tmp_path / "run") == logged(tmp_path / "straight")


@pytest.mark.slow
def test_deepspeed_starts_a_rank_on_each_node_of_the_hostfile(tmp_path: Path) -> None:
    """One of the eight slots of each."""
    config = write_config(tmp_path / "train.yaml", write_masked_sets(tmp_path / "corrupt"), tmp_path / "run", steps=2)
    stand_in(tmp_path / "bin", "pdsh", PDSH)
    options = ["--hostfile", str(LAUNCH / "hostfile"), "--no_ssh_check", "--num_accelerators", "1"]
    options += ["--master_addr", "127.0.0.1", "--master_port", str(free_port())]
    done = launched(tmp_path / "bin", "deepspeed", *options, "train/main.py", "--config", str(config))
    assert done.returncode == 0, done.stderr
    assert "2 ranks x 2 micro-batches" in done.stdout
    assert len(logged(tmp_path / "run")) == 2
