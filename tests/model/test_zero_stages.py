"""A sharded engine computes what an unsharded one does, for every family, tied and shared weights included."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def losses():
    environment = os.environ | {"OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"}
    command = [sys.executable, "-m", "tests.model.zero_ranks"]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "cannot be detected" not in done.stderr, "stage 3 met a module input or output that it cannot look into"
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "case",
    [
        "encoder",
        "decoder",
        "encoder_decoder",
        "shared layers",
        "relative places",
        "awd_lstm",
        "elmo",
        "generator",
        "int8",
        "int4",
        "disentangled",
    ],
)
def test_stage_three_trains_like_stage_zero(losses, case):
    straight, sharded = losses[f"{case} 0"], losses[f"{case} 3"]
    assert straight == pytest.approx(sharded, rel=1e-5)
    assert straight[2] == 0, "the micro-batch without labels"
    assert all(loss > 0 for step, loss in enumerate(straight) if step != 2)
