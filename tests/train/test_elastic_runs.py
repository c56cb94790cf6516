"""Runs that change their world size in the middle read the same global batches and learn the same."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from clozeline.configuration.config import load_config
from clozeline.errors import ConfigurationError
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.stream.batches import Batch
from clozeline.train.data.stream.stream import Stream
from clozeline.train.distributed.process_group import World
from clozeline.train.startup.announcements import dry_run
from tests.distributed import RankPool
from tests.matrices import mark_slow_but
from tests.pipeline.token_sets import recipe, run_stage, write_token_set
from tests.train import runs
from tests.train.masked_set import write_masked_sets
from tests.train.synthetic import plain_config

STEPS = 9
STOPS = (2, 6, 8)
Rows = list[tuple[list[int], list[int]]]


def start(world: World, config: Path, overrides: Sequence[str]) -> list[Rows]:
    """A run; for each of its steps the origin and the ids of this rank's rows, in their order."""
    seen: list[Rows] = []
    real = Stream.next_step

    def watched(self: Stream, global_batch: int | None = None) -> list[Batch]:
        batches = real(self, global_batch)
        seen.append([row for batch in batches for row in rows_of(batch)])
        return batches

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stream, "next_step", watched)
        assert runs.start(world, config, overrides) == (0, "")
    return seen


def rows_of(batch: Batch) -> Rows:
    ids, lengths = batch.tensors["input_ids"].tolist(), batch.tensors["lengths"].tolist()
    return [(origin, row[:n]) for origin, row, n in zip(batch.origin.tolist(), ids, lengths, strict=True)]


def phases_and_mixtures(folder: Path) -> dict[str, Any]:
    """Short rows of one set, then two mixtures with other weights and batches; epochs end in all of them."""
    a, b = (str(write_masked_sets(folder / name, rows=rows)) for name, rows in (("a", 21), ("b", 40)))
    return {
        "phases": [
            {"shards": a, "until_samples": 32, "global_batch": 8},
            {"shards": [a, b], "weights": [1.0, 3.0], "until_samples": 80, "global_batch": 16},
            {"shards": [b, a], "weights": [2.0, 1.0], "global_batch": 8},
        ]
    }


def online(folder: Path) -> dict[str, Any]:
    """Samples that are corrupted in the stream, a few epochs of them, with rows that the objective skips."""
    write_token_set(folder, [(31 * document) % 90 for document in range(12)])
    entry = {"name": "masked_lm", "max_length": 16}
    run_stage(recipe(folder, [entry]), "group")
    (grouping,) = (path for path in (folder / "group").iterdir() if (path / "train").is_dir())
    return {"shards": str(grouping / "train"), "corrupt": entry, "length_buckets": True}


def test_samples_that_become_too_long_are_refused_before_a_step(tmp_path: Path) -> None:
    """Samples of 14 tokens become rows of 16: a dry run sees it too."""
    data = online(tmp_path / "sets")
    plain = plain_config(model__position={"kind": "learned", "maximum": 15}, output=str(tmp_path / "run"))
    plain["data"] = {key: value for key, value in plain["data"].items() if key != "shards"} | data
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(plain), encoding="utf-8")
    with pytest.raises(ConfigurationError, match="up to 16 tokens, the model has 15 positions; set it to 16"):
        dry_run(load_config(TrainConfig, tmp_path / "run.yaml", []))


@pytest.mark.parametrize("make", mark_slow_but([phases_and_mixtures], [phases_and_mixtures, online]))
def test_world_sizes_in_turn(one_rank: RankPool, two_ranks: RankPool, tmp_path: Path, make: Any) -> None:
    """One rank straight; two, one, two and one in turn, stopped in the middle of phases and epochs."""
    plain = plain_config(model__dropout={}, steps=STEPS, schedule__steps=STEPS, output=str(tmp_path / "straight"))
    plain["data"] = {key: value for key, value in plain["data"].items() if key != "shards"} | make(tmp_path / "sets")
    config = tmp_path / "run.yaml"
    config.write_text(yaml.safe_dump(plain), encoding="utf-8")
    (straight,) = one_rank.run(start, config, [])
    turns: list[Rows] = []
    for number, steps in enumerate((*STOPS, STEPS)):
        ranks = (two_ranks, one_rank)[number % 2]
        by_rank = ranks.run(start, config, [f"output={tmp_path / 'turns'}", f"steps={steps}", "evaluate.max_rows=8"])
        turns += [[row for share in shares for row in share] for shares in zip(*by_rank, strict=True)]
    assert len(straight) == STEPS
    if plain["data"].get("length_buckets"):
        straight, turns = [sorted(step) for step in straight], [sorted(step) for step in turns]
    assert turns == straight
    losses = [[record["loss"] for record in runs.steps(tmp_path / name)] for name in ("straight", "turns")]
    assert losses[1] == pytest.approx(losses[0], abs=1e-5)
    assert len({str(step) for step in straight}) == STEPS, "no step is another one's copy"
