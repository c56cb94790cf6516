"""Promises of every executor: the files of local processes, whatever runs the tasks."""

from clozeline.pipeline.registries import EXECUTORS
from tests.contracts import contract
from tests.declarations import declared
from tests.pipeline.execution.toy_stage import run_toy, tree


@contract(EXECUTORS)
def test_an_executor_gives_the_files_of_local_processes(name, tmp_path, monkeypatch):
    """`prepare` of its own test file starts what it needs and returns options."""
    prepare = declared(EXECUTORS.package, name, "prepare", lambda folder, patch: {})
    options = prepare(tmp_path, monkeypatch)
    tasks = 3 if EXECUTORS.load_class(name).has_tasks else None
    run_toy(tmp_path / "there", name=name, tasks=tasks, workers=1, **options)
    summary = run_toy(tmp_path / "here", workers=2)

    assert summary.counts == {"squares": 6, "documents_in": 6, "documents_out": 6}
    assert tree(tmp_path / "there/dedup") == tree(tmp_path / "here/dedup")
