"""What a plan costs before it runs: pieces, opens, disk and memory, and plans that are refused."""

from __future__ import annotations

import json
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError, StorageError
from clozeline.pipeline.execution import plan as plans
from clozeline.pipeline.execution import plan_size
from clozeline.pipeline.execution.exchange import Exchange
from clozeline.pipeline.execution.plan import Plan, PlannedRange, load_plan
from clozeline.pipeline.execution.plan_size import (
    check_free_space,
    check_memory,
    check_plan_size,
    exchange_text,
    foreseen_disk,
    free_bytes,
)
from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.execution.stages import stage_of, stages_of
from clozeline.pipeline.recipe import Recipe
from clozeline.report.axis_units import size_text
from tests.pipeline.miniature import RECIPE, write_corpus

STAGES = ("clean", "dedup", "train_tokenizer", "encode", "group")


def foreseen(folder: Path, units: int, shards: int, size: int, **more: Any) -> tuple[Recipe, Plan, list[Any]]:
    """A recipe and a plan of that many units and shards of an input of `size` bytes that does not exist."""
    plain = {"corpus": "c", "output": str(folder), **{name: {} for name in STAGES}, **more}
    recipe = validate(Recipe, plain, "test")
    ranges = tuple(PlannedRange(unit, "default/a", "default", "jsonl", unit, unit + 1) for unit in range(units))
    facts = {"source": "default/a", "bytes": size, "reader": "jsonl", "options": {}, "splittable": True}
    plan = Plan(ranges, shards, (facts,))
    return recipe, plan, [stage_of(recipe, name, plan) for name in stages_of(recipe)]


def test_the_exchanges_of_a_stage_are_those_of_its_passes(tmp_path: Path) -> None:
    """Each kind of pieces that a pass bundles is foreseen, with as many pieces: 200 units and shards have bundles."""
    near = {"exact": {"key": "text"}, "near": {}, "lines": {}, "spans": {}}
    _, _, stages = foreseen(tmp_path, 200, 200, 10**9, dedup=near)
    for stage in stages[:-1]:  # `group` reads the manifest of `encode`
        bundled = {work.exchange for work in stage.passes() if work.name.endswith("-bundles")}
        assert bundled <= set(stage.exchanges())
        assert {each for each in stage.exchanges() if each.bundles} == bundled
        assert bool(bundled) == (stage.name in ("dedup", "encode"))


def test_a_plan_with_too_many_pieces_is_refused_with_the_keys_to_change(tmp_path: Path) -> None:
    size = 100 * 10**12
    check_plan_size(*foreseen(tmp_path, 9_000, 9_000, size)[1:])
    with pytest.raises(
        ConfigurationError, match=r"plan: 120,000 units and 120,000 shards make 14,400,000,000 pieces"
    ) as raised:
        check_plan_size(*foreseen(tmp_path, 120_000, 120_000, size)[1:])
    assert "of 'encode', expected at most 10,000,000,000" in str(raised.value)
    assert str(raised.value).endswith("plan.shard_bytes out, or set both to 12,207,031,250")


def _machine(monkeypatch: pytest.MonkeyPatch, total: int) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=total))


def test_local_workers_share_the_memory_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards of 1 GB: a worker needs 0.3 + 6 GB."""
    _machine(monkeypatch, 10 * 10**9)

    def check(workers: int, documents: int | None = None, shards: int = 4, **more: Any) -> str:
        executor = {"tasks": 8, "workers": workers}
        recipe, plan, _ = foreseen(tmp_path, 4, shards, shards * 10**9, executor=executor, **more)
        return check_memory(recipe, plan, documents)

    assert check(1) == check(8, shards=1) == check(2, limit=5) == ""
    assert check(2) == (
        "memory: a worker of 'encode' needs about 6.3 GB if no document is dropped, got 5.0 GB, a share of this "
        "machine's 10.0 GB among 2 workers: lower executor.workers, or set plan.shard_bytes to 783,333,333 or less"
    )
    assert "among 4 workers" in check(8), "no more than shards"
    assert check(2, 10**9) == ""
    assert "'encode' needs about 7.8 GB, got" in check(2, 2 * 10**9)
    with pytest.raises(ConfigurationError, match=r"needs about 15\.3 GB, got 5\.0 GB, .* lower executor\.workers"):
        check(2, 4 * 10**9)


@pytest.mark.parametrize(("name", "more"), [("slurm", {"partition": "cpu"}), ("ray", {})])
def test_a_worker_of_a_cluster_has_the_memory_of_its_cores(tmp_path: Path, name: str, more: dict[str, Any]) -> None:
    """64 TB in shards of 7.8 GB; only what fails in any case is refused, and Ray only reserves memory."""

    def check(options: dict[str, Any], documents: int | None = None, shards: int = 8192) -> str:
        executor = {"name": name, "options": {"mem_per_cpu_gb": 4, **more, **options}}
        recipe, plan, _ = foreseen(tmp_path, 4, shards, 64 * 10**12, executor=executor)
        return check_memory(recipe, plan, documents)

    assert check({}) == (
        "memory: a worker of 'encode' needs about 47.2 GB if no document is dropped, got 4.3 GB, "
        "executor.options.mem_per_cpu_gb (4) x cpus_per_task (1): raise one of them, or set plan.shard_bytes to "
        "665,827,882 or less"
    )
    assert check({"cpus_per_task": 12}) == check({}, 2 * 10**12) == ""
    assert "needs about 7.6 GB, got" in check({}, 4 * 10**12)
    for documents, shards in ((None, 64), (5 * 10**12, 8192)):
        if name == "ray":
            assert "raise one of them" in check({}, documents, shards)
        else:
            with pytest.raises(ConfigurationError, match=r"mem_per_cpu_gb \(4\) x cpus_per_task \(1\): raise"):
                check({}, documents, shards)
            assert check({"sbatch_args": {"mem": "900G"}}, documents, shards) == ""


def test_a_run_is_refused_memory_before_it_encodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The start warns; once the documents are known, `encode` and a dry run are refused, and finished stages stay."""
    write_corpus(tmp_path / "corpus")
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    words = ["--config", str(tmp_path / "recipe.yaml"), f"input={tmp_path / 'corpus'}", f"output={tmp_path / 'out'}"]
    with monkeypatch.context() as patched:
        _machine(patched, 20_000)
        assert main(["--dry-run", *words]) == 0
        assert "memory: a worker of 'encode' needs about" in capsys.readouterr().out
        assert main(words) == 64
        said = capsys.readouterr().err
        assert said.count("if no document is dropped") == 1
        assert said.count("memory: a worker of 'encode' needs about") == 2
        assert list((tmp_path / "out" / "dedup" / "documents").iterdir())
        assert not list((tmp_path / "out" / "encode").glob("**/*.arrow"))
        assert main(["--dry-run", *words]) == 64
    assert main(words) == 0
    capsys.readouterr()
    assert main(["--dry-run", *words]) == 0
    assert "encode: complete" in capsys.readouterr().out


def test_disk_and_opens_by_hand(tmp_path: Path) -> None:
    _, plan, stages = foreseen(tmp_path, 4, 4, 1000)
    assert foreseen_disk(plan, stages) == 400 + 400 + 0 + 400 + 400
    assert exchange_text([]) == ""
    assert exchange_text([Exchange("a", 3, 4)]) == "; 12 pieces between passes, 15 opens"
    assert exchange_text([Exchange("a", 3, 4)] * 2) == "; 24 pieces between passes, 30 opens"


def test_units_and_shards_grow_with_the_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / f"in/{number}.jsonl").write_text('{"text": "a"}\n' * 3000)  # 42,000 bytes

    def load(most: int, **sizes: int) -> Plan:
        monkeypatch.setattr(plans, "LEAST_BYTES", 4096)
        monkeypatch.setattr(plans, "MOST_UNITS", most)
        plain = {"corpus": "c", "input": [str(tmp_path / "in")], "output": str(tmp_path / "out"), "clean": {}}
        return load_plan(validate(Recipe, {**plain, "plan": sizes}, "test"))

    assert (len(load(1000).units), load(1000).shards) == (33, 31)  # as with 4,096 bytes given
    assert load(1000).digest == load(1000, unit_bytes=4096, shard_bytes=4096).digest
    assert (len(load(10).units), load(10).shards) == (12, 10)
    assert (len(load(10, unit_bytes=4096).units), load(10, unit_bytes=4096).shards) == (33, 10)


def test_a_dry_run_prints_pieces_opens_disk_and_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("corpus: c\nclean: {}\ndedup: {}\ntrain_tokenizer: {}\nencode: {}\n")
    arguments = ["--config", str(recipe), f"input={tmp_path / 'a.jsonl'}", f"output={tmp_path / 'out'}", "--dry-run"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "encode: follows from the stages before it; 1 pieces between passes, 2 opens\n" in out
    assert "disk: about 17 bytes for all stages if no document is dropped; free space: " in out
    assert "memory: about 300.0 MB for each worker if no document is dropped\n" in out
    assert not (tmp_path / "out").exists()


Usage = namedtuple("Usage", "total used free")


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 KB"), (7_340_000_000, "7.3 GB"), (2.5e16, "25000.0 TB")],
)
def test_sizes_are_told_in_decimal_units(size: float, text: str) -> None:
    assert size_text(size) == text


def test_a_stage_is_refused_below_what_it_writes_in_any_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert free_bytes(tmp_path / "not" / "yet" / "there") > 0
    monkeypatch.setattr(plan_size.shutil, "disk_usage", lambda folder: Usage(2000, 1000, 1000))
    assert check_free_space("dedup", tmp_path, 1000, 900) == ""
    said = check_free_space("dedup", tmp_path, 2000)
    assert "expected up to about 2.0 KB" in said
    assert said.endswith("set `output` to a larger disk, or give fewer files as `input`")
    assert "expected about 2.0 KB" in check_free_space("dedup", tmp_path, 2000, 1000)
    with pytest.raises(
        StorageError, match=r"dedup: expected about 2\.0 KB .* got 1\.0 KB of free space: .* set `output` to it"
    ):
        check_free_space("dedup", tmp_path, 2000, 1001)


def test_what_filters_may_drop_is_warned_of_and_what_is_certain_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same command goes on where there is space, and a dry run names sizes that are about right."""
    write_corpus(tmp_path / "corpus")
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    words = ["--config", str(tmp_path / "recipe.yaml"), f"input={tmp_path / 'corpus'}", f"output={tmp_path / 'out'}"]
    assert main(["--dry-run", *words, "executor={tasks: 3, workers: 2}"]) == 0
    assert "executor: local, tasks of a pass: 3, 2 at a time\n" in (said := capsys.readouterr().out)
    assert "free space: " in said
    with monkeypatch.context() as patched:
        patched.setattr(plan_size.shutil, "disk_usage", lambda folder: Usage(2000, 1990, 10))
        assert main(["--dry-run", *words]) == 0
        assert "all stages: expected up to about" in capsys.readouterr().out
        assert main(words) == 74
        said = capsys.readouterr().err
        assert "clean: expected up to about" in said
        assert "dedup: expected up to about" in said
        documents = sum(path.stat().st_size for path in (tmp_path / "out/dedup/documents").iterdir())
        assert f"error: encode: expected about {size_text(documents)} to write" in said
        assert not list((tmp_path / "out" / "encode").rglob("*.arrow"))
        # the other units of `clean` say what this one will write
        (tmp_path / "out" / "clean" / "records" / "000000.json").unlink()
        assert main(words) == 74
        assert "error: clean: expected about" in capsys.readouterr().err
    assert main(words) == 0
    # half of the units of a stage are gone: the others say what they need
    records = sorted((tmp_path / "out" / "dedup" / "records").glob("0*.json"))
    lost = records[: len(records) // 2]
    sizes = [sum(facts["bytes"] for facts in json.loads(path.read_text())["outputs"].values()) for path in lost]
    for path in lost:
        path.unlink()
    capsys.readouterr()
    assert main(["--dry-run", *words]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("dedup:"))
    number, unit = line.partition("; about ")[2].partition(";")[0].split()
    expected = float(number) * {"bytes": 1, "KB": 1000}[unit]
    assert 0.3 * sum(sizes) < expected < 3 * sum(sizes)
