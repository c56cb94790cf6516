"""Array jobs on a real Slurm, one node of this machine: what a stand-in cannot show."""

import os
import shlex
import sys

import pytest

from clozeline.pipeline import all_stages
from clozeline.pipeline.execution.recipe_command import main
from tests.one_node_slurm import MISSING, WHY, ask, one_node
from tests.pipeline.execution.executors.external_workers import until
from tests.pipeline.execution.toy_stage import tree
from tests.pipeline.miniature import RECIPE, write_corpus, write_recipe

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=WHY)]
SHORT = RECIPE[: RECIPE.index("  - {name: span_corruption")]
JOBS = ["executor.name=slurm", "executor.tasks=2"]
JOBS.append("executor.options={partition: cpu, poll_s: 1, mem_per_cpu_gb: 1, driver_bytes: 0}")


@pytest.fixture(scope="module")
def _cluster():
    with one_node() as variables, pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


@pytest.fixture
def words(_cluster, tmp_path):
    """Return the words of a run, which leaves no job to the next test."""
    recipe = write_recipe(tmp_path, SHORT)
    yield ["--config", str(recipe), f"input={write_corpus(tmp_path / 'in', 25)}"]
    ask({}, "scancel", f"--user={os.geteuid()}")


def test_a_driver_is_a_job_itself_and_its_folder_may_have_any_name(words, tmp_path):
    output = tmp_path / 'it\'s 100%a "b" $HOME'
    command = [sys.executable, "-m", "clozeline", "pipeline", *words, f"output={output}", *JOBS]
    log = tmp_path / "driver.out"
    wrapped = f"--wrap={shlex.join(command)}"
    ask({}, "sbatch", "--partition=cpu", "--mem=1G", f"--output={log}", wrapped)
    until(lambda: not ask({}, "squeue", "--noheader"))

    assert "report:" in log.read_text()
    assert any((output / "clean/logs/main").glob("*_*.out"))
    assert main([*words, f"output={tmp_path / 'local'}"]) == 0

    for stage in all_stages():
        assert tree(output / stage) == tree(tmp_path / "local" / stage), stage
