"""What a plan costs before it runs: pieces, opens, disk and memory, and plans that are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError
from clozeline.pipeline.execution import plan as plans
from clozeline.pipeline.execution.exchange import Exchange
from clozeline.pipeline.execution.plan import Plan, PlannedRange, load_plan
from clozeline.pipeline.execution.plan_size import check_plan_size, exchange_text, foreseen_disk, worker_memory
from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.execution.stage_order import stage_of, stages_of
from clozeline.pipeline.recipe import Recipe

STAGES = ("clean", "dedup", "train_tokenizer", "encode", "group")


def foreseen(folder: Path, units: int, shards: int, size: int, **more: Any) -> tuple[Recipe, Plan, list[Any]]:
    """A recipe and a plan of that many units and shards of an input of `size` bytes that does not exist."""
    plain = {"corpus": "c", "output": str(folder), **{name: {} for name in STAGES}, **more}
    recipe = validate(Recipe, plain, "test")
    ranges = tuple(PlannedRange(unit, "default/a", "default", "jsonl", unit, unit + 1) for unit in range(units))
    facts = {"source": "default/a", "bytes": size, "reader": "jsonl", "options": {}, "splittable": True}
    plan = Plan(ranges, shards, "", (facts,), (plans.Generation(1, units, shards),))
    return recipe, plan, [stage_of(recipe, name, plan) for name in stages_of(recipe)]


def test_the_exchanges_of_a_stage_are_those_of_its_passes(tmp_path: Path) -> None:
    """Each kind of pieces that a pass bundles is foreseen, with as many pieces: 200 units and shards have bundles."""
    near = {"exact": {"key": "text"}, "near": {}, "lines": {}, "windows": {}}
    _, _, stages = foreseen(tmp_path, 200, 200, 10**9, dedup=near)
    for stage in stages[:-1]:  # `group` reads the manifest of `encode`
        bundled = {work.exchange for work in stage.passes() if work.name.endswith("-bundles")}
        assert bundled <= set(stage.exchanges())
        assert {each for each in stage.exchanges() if each.bundles} == bundled
        assert bool(bundled) == (stage.name in ("dedup", "encode"))


def test_a_plan_with_too_many_pieces_is_refused_with_the_keys_to_change(tmp_path: Path) -> None:
    size = 100 * 10**12
    check_plan_size(*foreseen(tmp_path, 9_000, 9_000, size, executor={"name": "slurm", "options": {"partition": "p"}}))
    with pytest.raises(
        ConfigurationError, match=r"plan: 120,000 units and 120,000 shards make 14,400,000,000 pieces"
    ) as raised:
        check_plan_size(*foreseen(tmp_path, 120_000, 120_000, size))
    assert "of 'encode', expected at most 10,000,000,000" in str(raised.value)
    assert str(raised.value).endswith("plan.shard_bytes out, or set both to 12,207,031,250")


def test_a_shard_that_memory_cannot_hold_is_refused_where_this_machine_runs_it(tmp_path: Path) -> None:
    memory = psutil.virtual_memory().total
    for shards in (1, 2):
        recipe, plan, stages = foreseen(tmp_path, 4, shards, memory)
        with pytest.raises(ConfigurationError, match=r"plan\.shard_bytes: a worker needs about .* this machine has"):
            check_plan_size(recipe, plan, stages)
        check_plan_size(recipe, plan, [stage for stage in stages if stage.name != "encode"])
    recipe, plan, stages = foreseen(tmp_path, 4, 100, memory)
    check_plan_size(recipe, plan, stages)
    assert worker_memory(plan) < worker_memory(replace(plan, shards=50)) < memory


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


def test_a_run_that_an_earlier_version_planned_keeps_its_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n' * 3000)
    monkeypatch.setattr(plans, "LEAST_BYTES", 4096)
    plain = {"corpus": "c", "input": [str(tmp_path / "in.jsonl")], "output": str(tmp_path / "out"), "clean": {}}
    recipe = validate(Recipe, plain, "test")
    before = plans.freeze_plan(recipe)
    monkeypatch.setattr(plans, "MOST_UNITS", 3)
    assert load_plan(recipe).digest == before.digest
    (tmp_path / "out/clean/plan.json").unlink()
    assert len(load_plan(recipe).units) == 3


def test_a_dry_run_prints_pieces_opens_disk_and_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("corpus: c\nclean: {}\ndedup: {}\ntrain_tokenizer: {}\nencode: {}\n")
    arguments = ["--config", str(recipe), f"input={tmp_path / 'a.jsonl'}", f"output={tmp_path / 'out'}", "--dry-run"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "encode: follows from the stages before it; 1 pieces between passes, 2 opens\n" in out
    assert "disk: about " in out
    assert "memory: about 300.0 MB for each worker" in out
    assert not (tmp_path / "out").exists()
