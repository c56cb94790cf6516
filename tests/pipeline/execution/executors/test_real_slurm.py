"""Array jobs on a real Slurm, one node of this machine: what a stand-in cannot show."""

from pathlib import Path

import pytest

from clozeline.pipeline import all_stages
from clozeline.pipeline.execution.recipe_command import main
from tests.one_node_slurm import MISSING, WHY, one_node
from tests.pipeline.execution.toy_stage import tree
from tests.pipeline.miniature import RECIPE, write_corpus, write_recipe

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=WHY)]

JOBS = [
    "executor.name=slurm", "executor.tasks=2",
    "executor.options={partition: cpu, poll_s: 1, mem_per_cpu_gb: 1, driver_bytes: 0}",
]  # fmt: skip


def test_a_recipe_has_the_same_bytes_and_its_folder_may_have_any_name(tmp_path: Path) -> None:
    output = tmp_path / 'it\'s 100%a "b" $HOME'
    recipe = write_recipe(tmp_path, RECIPE[: RECIPE.index("  - {name: span_corruption")])
    words = ["--config", str(recipe), f"input={write_corpus(tmp_path / 'in', 25)}"]
    with one_node() as variables, pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        assert main([*words, f"output={output}", *JOBS]) == 0
    assert main([*words, f"output={tmp_path / 'local'}"]) == 0
    logs = list((output / "clean/logs/main").glob("*_*.out"))
    assert logs
    for stage in all_stages():
        there = {name: data for name, data in tree(output / stage).items() if not name.startswith("logs/")}
        assert there == tree(tmp_path / "local" / stage), stage
