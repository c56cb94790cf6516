"""Runs of a recipe: each unit once, failures named, restarts with the same bytes."""

import os
from functools import partial
from types import SimpleNamespace

import psutil
import pytest

from clozeline.errors import IntegrityError, PartialFailureError
from clozeline.pipeline.execution.progress import Progress
from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.execution.report import read_report
from clozeline.pipeline.execution.stage_run import StageRun, run_units
from clozeline.pipeline.execution.unit_record import KnownRecords, UnitRecord, require_equal
from clozeline.pipeline.recipe import ExecutorConfig, Recipe
from tests.pipeline.execution.noting_steps import Noting
from tests.pipeline.execution.toy_stage import ToyStage, tree
from tests.pipeline.miniature import RECIPE, write_corpus


def execute_stage(output, tasks=1, verify=False, workers=None, keep=True, **stage):
    recipe = Recipe(
        corpus="toy",
        output=output,
        executor=ExecutorConfig(tasks=tasks, workers=workers),
        keep_intermediates=keep,
    )
    toy = ToyStage(recipe, **stage)
    return StageRun(toy, KnownRecords(), verify=verify).execute(Progress())


def execute(output, **options):
    return execute_stage(output, **options)


def test_bytes_do_not_depend_on_tasks_or_workers(tmp_path):
    for number, (tasks, workers) in enumerate([(1, 1), (3, 1), (3, 2)]):
        summary = execute(tmp_path / str(number), tasks=tasks, workers=workers)
        assert summary.counts == {"squares": 6, "documents_in": 6, "documents_out": 6}

    first = tree(tmp_path / "0/dedup")

    assert first["sums/000001.txt"] == str(1 + 9 + 25).encode()
    assert first == tree(tmp_path / "1/dedup") == tree(tmp_path / "2/dedup")


@pytest.mark.parametrize("keep", [True, False])
def test_damaged_output_is_made_again_from_rebuilt_intermediates(tmp_path, keep):
    """A file of the same size with another byte is found by `verify` alone."""
    execute = partial(execute_stage, keep=keep)
    execute(tmp_path)
    assert any((tmp_path / "dedup").glob("tmp/*")) == keep
    before = tree(tmp_path / "dedup")
    target = tmp_path / "dedup/sums/000001.txt"
    for damage in (
        lambda: target.write_bytes(b""),
        target.unlink,
        lambda: target.write_bytes(b"99"),
    ):
        damage()
        flipped = target.exists() and target.stat().st_size > 0
        assert execute(tmp_path).skipped == flipped
        assert not flipped or not execute(tmp_path, verify=True).skipped
        assert tree(tmp_path / "dedup") == before

    assert not execute(tmp_path, version=2).skipped


@pytest.mark.parametrize(
    ("fault", "code", "message"), [("bug", 1, "ZeroDivisionError"), ("user", 64, "seventh seal")]
)
def test_failed_unit_leaves_the_others_and_a_rerun_finishes(tmp_path, fault, code, message):
    with pytest.raises(PartialFailureError, match=message) as caught:
        execute(tmp_path, fault=fault)

    assert caught.value.exit_code == code

    squares = sorted(path.name for path in (tmp_path / "dedup/tmp").glob("*.txt"))

    assert squares == [f"{unit:06d}.txt" for unit in (0, 2, 3, 4, 5)]

    execute(tmp_path)
    execute(tmp_path / "clean run")

    assert tree(tmp_path / "dedup") == tree(tmp_path / "clean run/dedup")


def test_counts_that_add_up_in_each_unit_and_not_in_all_end_the_stage(tmp_path, monkeypatch):
    def check(stage, counts):
        require_equal("toy", "sixes", counts.get("squares", 0) // 6, "expected", 0)

    monkeypatch.setattr(ToyStage, "check", check)
    with pytest.raises(IntegrityError, match="sixes = 1"):
        execute(tmp_path)


def test_killed_worker_costs_nothing_and_twice_costs_its_unit(tmp_path):
    summary = execute(tmp_path / "once", tasks=2, workers=2, fault="die once")
    assert summary.counts["squares"] == 6
    with pytest.raises(PartialFailureError, match="worker process died"):
        execute(tmp_path / "always", tasks=2, workers=2, fault="die always")
    assert len(list((tmp_path / "always/dedup/tmp").glob("*.txt"))) == 5


def test_a_record_that_a_worker_of_another_version_wrote_is_named(tmp_path, monkeypatch):
    save = UnitRecord.save

    def foreign(record, folder):
        save(record, folder)
        path = UnitRecord.path(folder, record.pass_name, record.unit)
        path.write_text('{"colour": 99}')

    with monkeypatch.context() as patch:
        patch.setattr(UnitRecord, "save", foreign)
        with pytest.raises(
            IntegrityError, match=r"square/000000\.json: expected the record .* the same version"
        ):
            execute(tmp_path)

    execute(tmp_path)
    execute(tmp_path / "other")

    assert tree(tmp_path / "dedup") == tree(tmp_path / "other/dedup")


@pytest.mark.parametrize(
    ("tasks", "workers", "processes"), [(1, 1, 1), (3, 1, 1), (4, 2, 2), (9, 9, 5)]
)
def test_every_unit_runs_once_in_as_many_processes_as_asked(tmp_path, tasks, workers, processes):
    run_units(
        Noting(tmp_path),
        [3, 1, 4, 5, 9],
        ExecutorConfig(tasks=tasks, workers=workers),
        lambda: None,
    )

    assert {path.stem for path in tmp_path.glob("*.done")} == {"1", "3", "4", "5", "9"}
    assert {path.read_text() for path in tmp_path.glob("*.started")} == {"x"}

    found = {path.read_text() for path in tmp_path.glob("*.done")}

    assert len(found) == processes
    assert (found == {str(os.getpid())}) == (workers == 1)


def test_a_plan_names_what_is_to_do_and_does_nothing(tmp_path, monkeypatch, capsys):
    write_corpus(tmp_path / "corpus")
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    words = [
        "--config",
        str(tmp_path / "recipe.yaml"),
        f"input={tmp_path / 'corpus'}",
        f"output={tmp_path / 'out'}",
    ]

    assert main(["--plan", *words, "executor={tasks: 3, workers: 2}"]) == 0

    said = capsys.readouterr().out

    assert "executor: local, tasks of a pass: 3, 2 at a time\n" in said
    assert ", free space: " in said
    assert "first run" in said
    assert rows_of_plan(said)["group"][:2] == ["unknown", "yet"]
    assert not (tmp_path / "out").exists()

    with monkeypatch.context() as patched:
        patched.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=20_000))
        assert main(words) == 0
        assert capsys.readouterr().err.count("memory: a worker of 'encode' needs about") == 1

    (record,) = (tmp_path / "out/encode/records/manifest").glob("*.json")
    record.unlink()

    assert main(["--plan", *words]) == 0
    assert rows_of_plan(capsys.readouterr().out)["encode"][2] == "1"
    assert not record.exists()
    assert main(words) == 0

    capsys.readouterr()

    assert main(["--plan", *words]) == 0
    assert {row[2] for row in rows_of_plan(capsys.readouterr().out).values()} == {"0"}
    assert main(["--plan", *words, "dedup.near.ngram=4"]) == 0

    said = capsys.readouterr().out

    assert "sketch.ngram changed" in said
    assert "depends on dedup: 0 to" in said

    assert (
        main(["--plan", *words, f"output={tmp_path / 'new'}", f"reuse=[{tmp_path / 'out'}]"]) == 0
    )

    taken = rows_of_plan(capsys.readouterr().out)

    assert {taken[stage][2] for stage in ("clean", "dedup", "encode")} == {"0"}

    assert main([*words, f"output={tmp_path / 'new'}", f"reuse=[{tmp_path / 'out'}]"]) == 0

    ours, theirs = (
        read_report(tmp_path / name / "dedup/report.json", "") for name in ("new", "out")
    )

    assert ours["deciders"] == theirs["deciders"]


def rows_of_plan(said):
    """Return units, kept and to make by stage from the table of `--plan`."""
    lines = said.partition("─\n")[2].splitlines()
    return {line.split()[0]: line.split()[1:4] for line in lines if line[:1].isalpha()}
