"""Promises of every executor: the files of local processes, whatever runs the tasks."""

from clozeline.pipeline.execution.output_lock import hold_output
from clozeline.pipeline.execution.progress import Progress
from clozeline.pipeline.execution.stage_run import StageRun
from clozeline.pipeline.execution.unit_record import KnownRecords
from clozeline.pipeline.recipe import ExecutorConfig, Recipe
from clozeline.pipeline.registries import EXECUTORS
from tests.contracts import contract
from tests.declarations import declared
from tests.pipeline.execution.toy_stage import ToyStage, tree


def files_of(output, name, **options):
    """The files that a stage of two passes leaves, but for logs."""
    executor = ExecutorConfig(name=name, tasks=3, workers=1, options=options)
    toy = ToyStage(Recipe(corpus="toy", output=output, executor=executor))
    with hold_output(output, lambda: None):
        StageRun(toy, KnownRecords()).execute(Progress())
    return {
        path: content
        for path, content in tree(output / "dedup").items()
        if not path.startswith("logs/")
    }


@contract(EXECUTORS)
def test_an_executor_gives_the_files_of_local_processes(name, tmp_path, monkeypatch):
    """`prepare` of its own test file starts what it needs and returns options."""
    prepare = declared(EXECUTORS.package, name, "prepare", lambda folder, patch: {})
    options = prepare(tmp_path, monkeypatch)
    assert files_of(tmp_path / "there", name, **options) == files_of(tmp_path / "here", "local")
