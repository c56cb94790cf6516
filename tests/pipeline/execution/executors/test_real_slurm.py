"""Array jobs on a real Slurm, one node of this machine: what a stand-in cannot show."""

import os
import shlex
import sys
import time

import pytest

from clozeline.pipeline import all_stages
from clozeline.pipeline.execution.recipe_command import main
from tests.one_node_slurm import MISSING, WHY, ask, one_node
from tests.pipeline.execution.toy_stage import tree
from tests.pipeline.miniature import RECIPE, write_corpus, write_recipe

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=WHY),
]

SHORT = RECIPE[: RECIPE.index("  - {name: span_corruption")]


@pytest.fixture(scope="module")
def _cluster():
    with one_node() as variables, pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


@pytest.fixture
def cluster(_cluster):
    """Leave no job to the next test."""
    yield
    ask({}, "scancel", f"--user={os.geteuid()}")


def queued():
    return ask({}, "squeue", "--noheader", "--array", "--format=%F_%K").split()


def until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def arguments(folder, recipe):
    return [
        "--config",
        str(write_recipe(folder, recipe)),
        f"input={write_corpus(folder / 'in', 25)}",
    ]


JOBS = ["executor.name=slurm", "executor.tasks=2"]
JOBS.append("executor.options={partition: cpu, poll_s: 1, mem_per_cpu_gb: 1, driver_bytes: 0}")


def test_a_recipe_has_the_same_bytes_and_its_folder_may_have_any_name(cluster, tmp_path):
    output = tmp_path / 'it\'s 100%a "b" $HOME'
    words = arguments(tmp_path, SHORT)

    assert main([*words, f"output={output}", *JOBS]) == 0
    assert main([*words, f"output={tmp_path / 'local'}"]) == 0

    logs = list((output / "clean/logs/main").glob("*_*.out"))

    assert logs

    for stage in all_stages():
        there = {
            name: data
            for name, data in tree(output / stage).items()
            if not name.startswith("logs/")
        }
        assert there == tree(tmp_path / "local" / stage), stage


def test_a_driver_is_a_job_itself(cluster, tmp_path):
    output = tmp_path / "out"
    words = [*arguments(tmp_path, SHORT), f"output={output}", *JOBS]
    command = shlex.join([sys.executable, "-m", "clozeline", "pipeline", *words])
    log = tmp_path / "driver.out"
    ask({}, "sbatch", "--partition=cpu", "--mem=1G", f"--output={log}", f"--wrap={command}")
    until(lambda: not queued(), 300)

    assert "report:" in log.read_text()
    assert main([*words[:-3], f"output={tmp_path / 'local'}"]) == 0

    for stage in all_stages():
        there = {
            name: data
            for name, data in tree(output / stage).items()
            if not name.startswith("logs/")
        }
        assert there == tree(tmp_path / "local" / stage), stage
