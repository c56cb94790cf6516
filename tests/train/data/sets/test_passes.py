"""`steps: auto` by hand-counted passes, kept by a resumed run; and a note where stored corruptions come too often."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clozeline.configuration.config import load_config
from clozeline.errors import ConfigurationError
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.sets.datasets import open_datasets
from clozeline.train.data.sets.passes import plan_steps
from clozeline.train.startup.announcements import dry_run
from clozeline.train.startup.open_run import read_config
from tests.distributed import RankPool
from tests.pipeline.token_sets import recipe, run_stage, write_token_set
from tests.shard_sets import objective
from tests.train.data.sets.test_datasets import config_file, logged
from tests.train.masked_set import write_config, write_masked_sets
from tests.train.test_evaluate import start

AUTO: Any = {"steps": "auto", "schedule__steps": None}


def stored(folder: Path, name: str, variants: int, rows: int = 2400) -> Path:
    """A set that an objective of this name made, with this number of corruptions of each sample."""
    facts = {**objective("encoder"), "name": name, "heads": ["masked_lm"]}
    return write_masked_sets(folder, rows=rows, name=folder.name, objective=facts, variants=variants)


@pytest.mark.parametrize(
    ("name", "variants", "steps"),
    [
        ("masked_lm", 1, 2 * 2400 // 8),  # each corruption twice
        ("masked_lm", 3, 2 * 2400 // 8),  # 6 passes over 800 samples
        ("causal_lm", 1, 4 * 2400 // 8),  # nothing is drawn: four passes
        ("classification", 1, 4 * 2400 // 8),  # a task
    ],
)
def test_steps_of_stored_sets(
    tmp_path: Path, name: str, variants: int, steps: int, capsys: pytest.CaptureFixture[str]
) -> None:
    shards = stored(tmp_path / "set", name, variants)
    config = load_config(TrainConfig, write_config(tmp_path / "c.yaml", shards, tmp_path / "run", **AUTO), [])
    assert plan_steps(config.data, open_datasets(config).phases) == steps
    assert dry_run(config) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert f"{steps:,} steps (schedule ends at {steps:,})" in out
    assert "by heart" not in out


def test_steps_of_samples_and_of_larger_sets(tmp_path: Path) -> None:
    """Corrupted anew, samples are read 16 times; 4 million tokens are enough, and every row is read once."""
    write_token_set(tmp_path, [40] * 80)
    run_stage(recipe(tmp_path, [entry := {"name": "masked_lm", "max_length": 16}]), "group")
    data = {"shards": str(tmp_path / "group" / "packed-14-sep" / "train"), "corrupt": entry}
    config = load_config(TrainConfig, config_file(tmp_path / "run.yaml", data, **AUTO), [])
    phases = open_datasets(config).phases
    rows = len(phases[0].sources[0].shards)
    assert plan_steps(config.data, phases) == -(-16 * rows // 8)

    def of_tokens(tokens: int, architecture: str = "encoder") -> int:
        """Of samples of 100 tokens."""
        totals = SimpleNamespace(samples=tokens // 100, tokens=tokens)
        objective = SimpleNamespace(name="masked_lm", architecture=architecture)
        manifest = SimpleNamespace(totals=totals, variants=1, objective=objective)
        phase: Any = SimpleNamespace(sources=[SimpleNamespace(manifest=manifest, corruption=True)])
        return plan_steps(config.data, [phase])

    assert of_tokens(1_000_000) == of_tokens(1_600_000) == 4_000_000 // 100 // 8
    assert of_tokens(1_000_000, "encoder_decoder") == 2_000_000 // 100 // 8
    assert of_tokens(80_000_000) == 80_000_000 // 100 // 8
    assert of_tokens(100) == 100, "room for a warm-up"


def test_phases_have_no_passes(tmp_path: Path) -> None:
    shards = str(write_masked_sets(tmp_path / "set"))
    config = load_config(TrainConfig, config_file(tmp_path / "a.yaml", {"phases": [{"shards": shards}]}, **AUTO), [])
    with pytest.raises(ConfigurationError, match="set a number"):
        dry_run(config)


@pytest.mark.parametrize(("steps", "reads"), [(600, None), (900, "3.0")])
@pytest.mark.parametrize(("name", "variants"), [("masked_lm", 1), ("masked_lm", 2), ("causal_lm", 1), ("toy", 1)])
def test_a_start_says_how_often_stored_corruptions_are_read(
    tmp_path: Path, name: str, variants: int, steps: int, reads: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    shards = stored(tmp_path / "set", name, variants)
    changes: Any = {"steps": steps, "schedule__steps": steps}
    config = load_config(TrainConfig, write_config(tmp_path / "c.yaml", shards, tmp_path / "run", **changes), [])
    assert dry_run(config) == 0
    out = " ".join(capsys.readouterr().out.split())
    if reads is None or name != "masked_lm":
        assert "by heart" not in out
    else:
        assert f"(of {variants}) is read {reads} times" in out
        assert f"Store {3 * variants} " in out
        assert "data.corrupt" in out


def test_samples_are_read_as_often_as_you_like(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_token_set(tmp_path, [40] * 12)
    run_stage(recipe(tmp_path, [entry := {"name": "masked_lm", "max_length": 16}]), "group")
    data = {"shards": str(tmp_path / "group" / "packed-14-sep" / "train"), "corrupt": entry}
    config = config_file(tmp_path / "run.yaml", data, steps=500, schedule__steps=500)
    assert dry_run(load_config(TrainConfig, config, [])) == 0
    assert "by heart" not in capsys.readouterr().out


def test_a_resumed_run_keeps_its_number(one_rank: RankPool, tmp_path: Path) -> None:
    """Stopped and resumed, the bits of a run without a stop; with a larger set since then, the same number of steps."""
    shards = [str(stored(tmp_path / name, "masked_lm", 1, rows=480)) for name in ("a", "b")]
    straight, parts, grown = (
        config_file(tmp_path / f"{name}.yaml", {"shards": shards[0]}, **AUTO) for name in ("straight", "parts", "grown")
    )
    assert one_rank.run(start, straight, []) == [(0, "")]
    assert logged(straight)[-1][0] == read_config(tmp_path / "straight").steps == 2 * 480 // 8
    for config in (parts, grown):
        assert one_rank.run(start, config, [], 50) == [(75, "")]
        assert len(logged(config)) < 60
    assert one_rank.run(start, parts, []) == [(0, "")]
    assert logged(parts) == logged(straight)
    both = config_file(tmp_path / "grown.yaml", {"shards": shards}, **AUTO)
    assert plan_steps((config := load_config(TrainConfig, both, [])).data, open_datasets(config).phases) == 240
    assert one_rank.run(start, both, ["checkpoint.allow_changed=[data]"]) == [(0, "")]
    assert logged(both)[-1][0] == 120
