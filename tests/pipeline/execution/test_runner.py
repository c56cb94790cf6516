"""Runs of a recipe: each unit once, failures named, restarts with the same bytes."""

import json
import os
import re
from dataclasses import dataclass
from unittest.mock import patch

import pytest

from clozeline.checksummed_json import add_checksum, read_canonical, write_canonical
from clozeline.errors import IntegrityError, PartialFailureError
from clozeline.pipeline.clean.unit import CleanUnit
from clozeline.pipeline.execution.arguments import Describer
from clozeline.pipeline.execution.executors import _executor
from clozeline.pipeline.execution.plan import load_plan
from clozeline.pipeline.execution.recipe_command import main, run_stage
from clozeline.pipeline.execution.runner import preview_stages
from clozeline.pipeline.execution.stage_run import run_units
from clozeline.pipeline.execution.unit_record import (
    KnownRecords,
    UnitRecord,
    read_records,
    require_equal,
)
from clozeline.pipeline.recipe import ExecutorConfig, load_default_recipe
from tests.pipeline.execution.noting_steps import LongFirst, Noting, Waiting
from tests.pipeline.execution.toy_stage import Gather, ToyStage, run_toy, tree
from tests.pipeline.miniature import RECIPE, write_corpus, write_recipe


@pytest.mark.parametrize("keep", [True, False])
def test_damaged_output_is_made_again_from_rebuilt_intermediates(tmp_path, keep):
    """A file of the same size with another byte is found by `verify` alone."""
    run_toy(tmp_path, keep=keep)
    before = tree(tmp_path / "dedup")
    target = tmp_path / "dedup/sums/000001.txt"

    assert target.read_text() == str(1 + 9 + 25)
    assert any((tmp_path / "dedup").glob("tmp/*")) == keep

    for content in (b"", None, b"99"):
        target.unlink() if content is None else target.write_bytes(content)
        is_kept = content == b"99"
        assert run_toy(tmp_path, keep=keep).skipped == is_kept
        assert run_toy(tmp_path, keep=keep, verify=True).skipped != is_kept
        assert tree(tmp_path / "dedup") == before

    assert not run_toy(tmp_path, keep=keep, version=2).skipped


@pytest.mark.parametrize(
    ("fault", "code", "message"),
    [
        ("bug", 1, r"ZeroDivisionError\('by 0'\)"),
        ("user", 64, "seventh seal"),
        ("disk", 74, "000001.txt: No space left; free some space"),
        ("count", 65, "do not add up"),
        ("die always", 69, "worker process died"),
    ],
)
def test_failed_unit_leaves_the_others_and_a_rerun_finishes(tmp_path, fault, code, message):
    with pytest.raises(PartialFailureError, match=message) as caught:
        run_toy(tmp_path, fault, workers=2)

    failed = UnitRecord.read(UnitRecord.path(tmp_path / "dedup", "square", "000001"))

    assert caught.value.exit_code == failed.exit_code == code
    assert (failed.status, failed.counts, failed.outputs) == ("failed", {}, {})
    assert ("Traceback" in failed.trace) == (fault == "bug")
    assert len(list((tmp_path / "dedup/tmp").glob("*.txt"))) == 5 + (fault == "count")

    run_toy(tmp_path)
    run_toy(tmp_path / "clean run", "die once", workers=2)

    assert tree(tmp_path / "dedup") == tree(tmp_path / "clean run/dedup")


def test_units_that_fail_in_two_ways_end_with_the_code_of_neither(tmp_path):
    with pytest.raises(PartialFailureError, match="seventh seal") as caught:
        run_toy(tmp_path, "disk + user")

    assert caught.value.exit_code == 69


def test_counts_that_add_up_in_each_unit_and_not_in_all_end_the_stage(tmp_path, monkeypatch):
    def check(stage, counts):
        require_equal("toy", "sixes", counts.get("squares", 0) // 6, "expected", 0)

    monkeypatch.setattr(ToyStage, "check", check)
    with pytest.raises(IntegrityError, match="sixes = 1"):
        run_toy(tmp_path)


def test_a_record_that_a_worker_of_another_version_wrote_is_named(tmp_path, monkeypatch):
    save = UnitRecord.save

    def write_other(record, folder):
        record.arguments = {**record.arguments, "version": 99}
        save(record, folder)

    with monkeypatch.context() as patch:
        patch.setattr(UnitRecord, "save", write_other)
        with pytest.raises(IntegrityError, match=r"square/000000\.json: .* the same version"):
            run_toy(tmp_path, workers=1)

    assert not run_toy(tmp_path).skipped


@pytest.mark.parametrize(("workers", "processes"), [(1, 1), (2, 2), (9, 5)])
def test_every_unit_runs_once_in_as_many_processes_as_asked(tmp_path, workers, processes):
    config = ExecutorConfig(workers=workers)
    run_units(Waiting(tmp_path, "pid", processes), [3, 1, 4, 5, 9], config, lambda **_: None)
    found = {path.stem: path.read_text() for path in tmp_path.glob("*.done")}

    assert found.keys() == {"1", "3", "4", "5", "9"}
    assert len({*found.values()}) == processes
    assert (str(os.getpid()) in found.values()) == (workers == 1)


def test_a_free_worker_takes_the_next_unit(tmp_path):
    step = LongFirst(tmp_path, "done", 5)
    run_units(step, range(6), ExecutorConfig(workers=2), lambda **_: None)
    assert len(list(tmp_path.glob("*.done"))) == 6


@pytest.mark.parametrize(("size", "here"), [(1000, True), (2**30, False)])
def test_cores_have_workers_by_default_but_a_small_pass_has_none(tmp_path, size, here):
    with patch("os.sched_getaffinity", lambda _: {0, 1}):
        run_units(Noting(tmp_path), [1, 2], ExecutorConfig(), lambda **_: None, input_bytes=size)
    found = {path.read_text() for path in tmp_path.glob("*.done")}
    assert (found == {str(os.getpid())}) == here


@pytest.fixture
def plan(tmp_path, capsys):
    """`plan(*words)`: what `--plan` says of a recipe, and its rows by stage; `plan.words` are those
    of a run."""
    words = ["--config", str(write_recipe(tmp_path, RECIPE))]
    words += [f"input={write_corpus(tmp_path / 'in')}", f"output={tmp_path / 'out'}"]

    def plan(*more):
        assert main(["--plan", *words, *more]) == 0
        said = capsys.readouterr().out
        lines = said.partition("─\n")[2].splitlines()
        return said, {line.split()[0]: line.split()[1:4] for line in lines if line[:1].isalpha()}

    plan.words = words
    return plan


def test_a_plan_names_what_is_to_do_and_does_nothing(tmp_path, monkeypatch, capsys, plan):
    said, rows = plan("executor.workers=2")

    assert "executor: local, workers: 2\n" in said
    assert "first run" in said
    assert rows["group"][:2] == ["unknown", "yet"]
    assert not (tmp_path / "out").exists()

    with monkeypatch.context() as patched:
        patched.setattr(_executor, "find_memory", lambda: 20_000)
        assert main([*plan.words, "executor.workers=2"]) == 0
        said = " ".join(capsys.readouterr().err.split())
        assert "has 10.0 KB: lower executor.workers, or lower limits.text_chars" in said

    assert {row[2] for row in plan()[1].values()} == {"0"}

    said, _ = plan("dedup.near.ngram=4")

    assert "sketch.ngram changed" in said
    assert re.search(r"depends on dedup: 0 to \d+ units", said)

    (record,) = (tmp_path / "out/encode/records/manifest").glob("*.json")
    record.unlink()

    assert plan()[1]["encode"][2] == "1"
    assert not record.exists()

    # another output has the other units
    reuse = [f"output={tmp_path / 'new'}", f"reuse=[{tmp_path / 'out'}]"]
    _, rows = plan(*reuse)

    assert [rows[stage][2] for stage in ("clean", "dedup", "encode")] == ["0", "0", "1"]
    assert main([*plan.words, *reuse]) == 0
    assert main([*plan.words, "reuse=[nowhere]"]) == 64


def test_a_plan_expects_a_new_unit_to_take_as_long_for_a_byte(tmp_path):
    """A file of 3 times the bytes is expected to take 3 times as long as the one before."""
    words = [f"input={tmp_path}/*.jsonl", f"output={tmp_path / 'out'}", "clean.filters=[]"]
    small = '{"text": "The river rose all night, and nobody slept in the village."}\n' * 500
    (tmp_path / "a.jsonl").write_text(small)
    assert run_stage("clean", words) == 0
    (record,) = read_records(tmp_path / "out/clean")
    (tmp_path / "b.jsonl").write_text(small * 3)
    recipe, _ = load_default_recipe("clean", words)
    (preview,) = preview_stages(recipe, ["clean"], load_plan(recipe), KnownRecords(), False, None)

    assert preview.cpu_seconds == pytest.approx(3 * record.cpu_seconds, rel=1e-3)


def raise_version(stage, monkeypatch):
    monkeypatch.setattr(CleanUnit, "VERSION", CleanUnit.VERSION + 1)


def change_form(stage, monkeypatch):
    for path in (stage / "records/main").glob("*.json"):
        data = read_canonical(path.read_bytes(), path)
        path.write_bytes(write_canonical(data | {"key": data.pop("arguments")["options"]}))


def forget_option(stage, monkeypatch):
    (path,) = (stage / "records/options").glob("*.json")
    options = json.loads(path.read_text())
    del options["limits"], options["checksum"]
    path.with_stem("0").write_text(json.dumps(add_checksum(options)))
    for path in (stage / "records/main").glob("*.json"):
        data = read_canonical(path.read_bytes(), path)
        data["arguments"]["options"] = "0"
        path.write_bytes(write_canonical(data))


@pytest.mark.parametrize("change", [raise_version, change_form, forget_option])
def test_units_of_other_code_are_replaced_only_by_force(
    tmp_path, monkeypatch, capsys, plan, change
):
    assert main(plan.words) == 0
    stage = tmp_path / "out/clean"
    change(stage, monkeypatch)
    before = {path: path.read_bytes() for path in stage.glob("documents/*")}
    said, _ = plan("clean.normalize=none")

    assert ("made by other code" in " ".join(said.split())) is (change is not forget_option), (
        "another recipe"
    )

    said, _ = plan()

    assert "made by other code, would be replaced" in " ".join(said.split())
    assert "clean: first run" not in said

    said, _ = plan(f"output={tmp_path / 'new'}", f"reuse=[{tmp_path / 'out'}]")

    assert "made by other code, are made again" in " ".join(said.split())
    assert main(plan.words) == 64
    assert "--force clean" in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in stage.glob("documents/*")}
    assert (tmp_path / "out/report.html").exists()
    assert main([*plan.words, "--force", "clean"]) == 0

    capsys.readouterr()

    assert {row[2] for row in plan()[1].values()} == {"0"}


@dataclass(frozen=True)
class Algorithm:
    VERSION = 1


def test_the_version_of_an_algorithm_is_an_argument(monkeypatch):
    def describe():
        return Describer().describe(Gather(0, Algorithm()))

    before = describe()
    assert describe() == before
    monkeypatch.setattr(Algorithm, "VERSION", 2)
    assert describe() != before
