"""The training of recipes learns from the shards of a crawl."""

from pathlib import Path

import pytest

from clozeline.train.distributed.process_group import World
from tests.crawled_chain import Chain
from tests.distributed import ROOT, RankPool
from tests.matrices import mark_slow_but
from tests.train.runs import evaluations, start, steps

RECIPES = {"bert": "masked_lm", "gpt": "causal_lm", "t5": "span_corruption", "bart": "bart"}
STEPS = 16
SMALL = [
    *("model.dim=32", "model.layers=1", "model.attention_heads=2", "model.ffn_dim=64", "model.dropout={}"),
    *("data.global_batch=16", "data.micro_batch=8", "data.lanes=8", "optimizer.learning_rate=0.01"),
    *("schedule.warmup=2", f"steps={STEPS}", "evaluate.every=null", "checkpoint.every=null", "log.tensorboard=false"),
]


def learn(world: World, recipe: str, shards: str, output: Path, *words: str) -> None:
    overrides = [f"data.shards={shards}", f"output={output}", *words]
    config = ROOT / "configs" / "recipes" / recipe / "train.yaml"
    assert start(world, config, overrides) == (0, "")


@pytest.mark.parametrize("recipe", mark_slow_but(["bert"], RECIPES))
def test_the_loss_falls(one_rank: RankPool, chain: Chain, tmp_path: Path, recipe: str) -> None:
    shards = chain.output / "corrupt" / RECIPES[recipe] / "train" / "manifest.json"
    one_rank.run(learn, recipe, str(shards), tmp_path, *SMALL)
    losses = [record["loss"] for record in steps(tmp_path)]
    assert len(losses) == STEPS
    assert sum(losses[-3:]) / 3 < losses[0] - 0.5
    assert len(evaluations(tmp_path)) == 1
