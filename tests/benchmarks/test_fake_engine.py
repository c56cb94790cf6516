"""The engine and DeepSpeed on the pretended GPU."""

import shutil
import subprocess
import sys

from benchmarks.harness import ROOT

import pytest


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_a_step_of_the_engine_reads_no_value_but_its_own():
    """At stage 2 DeepSpeed reads none either; its table names what it reads at the others."""
    command = [sys.executable, "-m", "tests.benchmarks.fake_engine", "--stages", "2", "3"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    *_, second, third = (line.split("|") for line in done.stdout.splitlines())
    assert second[2].strip() == "a complete step", done.stdout
    assert "deepspeed/" in third[3], done.stdout
