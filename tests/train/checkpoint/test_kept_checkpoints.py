"""Checkpoints that survive pruning because of what they are: the best, and the first after a number of tokens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from clozeline.train.checkpoint.format import Index
from clozeline.train.checkpoint.state import TrainState, read_state
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.process_group import World
from clozeline.train.optim.early_stopping import Best
from tests.distributed import RankPool
from tests.train.checkpoint.test_checkpoints import present
from tests.train.synthetic import build, store, tiny


def save_to_keep(world: World, config: TrainConfig, folder: str) -> list[list[int]]:
    """Steps of 100 tokens, the best of a metric at step 2; the checkpoints after each save and score."""
    engine = build(config, world)
    found = store(Path(folder), world, keep_last=1, at=["250 tokens", "5 words"], tokens_per_word=100.0)
    kept = []
    for step in (1, 2, 4, 6, 7, 8):
        best = None if step == 1 else Best("heldout/loss", 1.0, 2, step // 2 - 1)
        state = TrainState(step=step, samples=step, tokens=100 * step, best=None if step == 2 else best)
        assert found.save(engine, state)
        found.score(replace(state, best=best, heldout_loss=1.0))
        kept.append(present(Path(folder)))
    engine.close()
    return kept


def test_the_best_and_the_first_after_a_number_of_tokens_are_kept(one_rank: RankPool, tmp_path: Path) -> None:
    """250 tokens are first passed by the checkpoint of step 4, 5 words (500 tokens) by that of step 6."""
    (kept,) = one_rank.run(save_to_keep, tiny(), str(tmp_path))
    assert kept == [[1], [2], [2, 4], [2, 4, 6], [2, 4, 6, 7], [2, 4, 6, 8]]
    index = Index.read(tmp_path / "step-00000008")
    assert read_state(index).best == Best("heldout/loss", 1.0, 2, 3)
