"""Every recipe's training learns from the shards of a crawl, in either container."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clozeline.configuration.config import load_config
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.shards import open_shards, write_manifest, write_shard
from clozeline.train.checkpoint.part_reader import CheckpointReader
from clozeline.train.checkpoint.run_weights import find_checkpoint, read_weights
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.process_group import World
from clozeline.train.logs.json_lines import read_lines
from clozeline.train.optim.optimizers.nt_asgd import no_longer_falls
from clozeline.train.run import run
from tests.crawled_chain import Chain
from tests.distributed import ROOT, RankPool
from tests.matrices import mark_slow_but

RECIPES = {"bert": "masked_lm", "gpt": "causal_lm", "t5": "span_corruption", "bart": "bart"}
STEPS = 16
WITHOUT_ATTENTION = {"elmo": "bidirectional_lm", "ulmfit": "regularised_lm"}
SMALL = [
    *("model.dim=32", "model.layers=1", "model.attention_heads=2", "model.ffn_dim=64", "model.dropout={}"),
    *("data.global_batch=16", "data.micro_batch=8", "data.lanes=8", "optimizer.learning_rate=0.01"),
    *("schedule.warmup=2", f"steps={STEPS}", "evaluate.every=null", "checkpoint.every=null", "log.tensorboard=false"),
]


def learn(world: World, recipe: str, shards: str, output: str) -> list[str]:
    overrides = [f"data.shards={shards}", f"output={output}", *SMALL]
    config = load_config(TrainConfig, ROOT / "configs" / "recipes" / recipe / "train.yaml", overrides)
    assert run(config, joined=world) == 0
    return [record["loss"].hex() for record in read_lines(Path(output) / "metrics.jsonl")]


def other_container(manifest: Path, folder: Path) -> Path:
    """The same rows in the other container."""
    source = open_shards(manifest)
    facts = source.manifest
    container = "tar" if facts.container == "arrow" else "arrow"
    shape = {"block_rows": facts.block_rows, "container": container, "codec": "zstd"}
    folder.mkdir()
    infos = []
    for shard, entry in enumerate(facts.shards):
        blocks = [source.read_block(int(b)) for b in (source.index.shard == shard).nonzero()[0]]
        path = folder / f"{entry.path.rsplit('.', 1)[0]}.{container}"
        infos.append(write_shard(path, blocks, source.columns, **shape))  # type: ignore[arg-type]
    plain = facts.model_dump(mode="json")
    write_manifest(
        folder,
        name=facts.name,
        kind=facts.kind,
        seed=facts.seed,
        tokenizer=plain["tokenizer"],
        columns=source.columns,
        objective=plain["objective"],
        shards=infos,
        output=Output(folder),
        **shape,  # type: ignore[arg-type]
    )
    return folder / "manifest.json"


@pytest.mark.parametrize("recipe", mark_slow_but(["bert"], RECIPES))
def test_loss_falls_from_both_containers(one_rank: RankPool, chain: Chain, tmp_path: Path, recipe: str) -> None:
    shards = chain.output / "corrupt" / RECIPES[recipe] / "train" / "manifest.json"
    (first,) = one_rank.run(learn, recipe, str(shards), str(tmp_path / "first"))
    losses = [float.fromhex(loss) for loss in first]
    assert len(losses) == STEPS
    assert sum(losses[-3:]) / 3 < losses[0] - 0.5
    assert "heldout" in read_lines(tmp_path / "first" / "metrics.jsonl")[-1]
    copy = other_container(shards, tmp_path / "copy")
    assert one_rank.run(learn, recipe, str(copy), str(tmp_path / "second"))[0] == first


NARROW = [
    *("model.dim=32", "model.layers=2", "model.cell_dim=40", "model.dropout.hidden=0.1", "zero.stage=2"),
    *("data.global_batch=16", "data.micro_batch=8", "data.lanes=8", "optimizer.learning_rate=0.02"),
    *("schedule.warmup=2", "schedule.steps=30", "evaluate.every=null", "evaluate.max_rows=64", "log.tensorboard=false"),
]


def learn_narrow(world: World, recipe: str, shards: str, output: str, steps: int) -> list[dict[str, Any]]:
    overrides = [f"data.shards={shards}", f"output={output}", f"steps={steps}", *NARROW]
    config = load_config(TrainConfig, ROOT / "configs" / "recipes" / recipe / "train.yaml", overrides)
    assert run(config, joined=world) == 0
    return read_lines(Path(output) / "metrics.jsonl")


@pytest.mark.slow
@pytest.mark.parametrize("recipe", WITHOUT_ATTENTION)
def test_models_without_attention_learn_and_resume(
    two_ranks: RankPool, chain: Chain, tmp_path: Path, recipe: str
) -> None:
    """With all their dropouts, whose masks are drawn again as they were."""
    shards = str(chain.output / "corrupt" / "causal_lm" / "train" / "manifest.json")
    straight, _ = two_ranks.run(learn_narrow, recipe, shards, str(tmp_path / "straight"), 30, timeout=1200)
    losses = [record["loss"] for record in straight if "losses" in record]
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5])
    heldout = straight[-1]["heldout"]["heldout"]
    assert list(heldout["losses"]) == [WITHOUT_ATTENTION[recipe]]
    assert 0 < heldout["loss"] < losses[0]
    two_ranks.run(learn_narrow, recipe, shards, str(tmp_path / "parts"), 3)
    resumed, _ = two_ranks.run(learn_narrow, recipe, shards, str(tmp_path / "parts"), 6)
    again = [record["loss"] for record in resumed if "losses" in record]
    assert [loss.hex() for loss in again] == [loss.hex() for loss in losses[:6]]


AVERAGED = [
    *("model.dim=32", "model.layers=2", "model.cell_dim=40", "data.global_batch=16", "data.micro_batch=8"),
    *("data.lanes=8", "steps=24", "evaluate.every=1", "evaluate.max_rows=64", "optimizer.patience=1"),
    *("checkpoint.every=1", "checkpoint.keep_last=50", "log.tensorboard=false"),
]


def learn_averaged(world: World, shards: str, output: str) -> None:
    overrides = [f"data.shards={shards}", f"output={output}", *AVERAGED]
    config = load_config(TrainConfig, ROOT / "configs" / "recipes" / "ulmfit" / "train_averaged.yaml", overrides)
    assert run(config, joined=world) == 0


@pytest.mark.slow
def test_averaged_weights_are_the_mean_of_those_after_the_trigger(
    two_ranks: RankPool, chain: Chain, tmp_path: Path
) -> None:
    """The recipe's own rate and clipping at ZeRO stage 1; means are taken here from the checkpoints of all steps."""
    shards = str(chain.output / "corrupt" / "causal_lm" / "train" / "manifest.json")
    two_ranks.run(learn_averaged, shards, str(tmp_path), timeout=1200)
    records = read_lines(tmp_path / "metrics.jsonl")
    losses = [record["loss"] for record in records if "losses" in record]
    assert sum(losses[-5:]) < 0.95 * sum(losses[:5])
    (begun,) = [line["step"] for line in read_lines(tmp_path / "events.jsonl") if line["event"] == "averaging"]
    heldout = [record["heldout"]["heldout"]["loss"] for record in records if "heldout" in record]
    assert begun == next(n for n in range(1, 25) if no_longer_falls(heldout[:n], 1))
    assert begun < 22, "enough steps for a mean"
    means: dict[str, np.ndarray] = {}
    for number, step in enumerate(range(begun, 25), start=1):
        reader = CheckpointReader(*find_checkpoint(tmp_path, step))
        for name in read_weights(*find_checkpoint(tmp_path, begun)):
            weight = reader.parameter("weight", name).numpy().astype(np.float64)
            means[name] = means.get(name, 0.0) + (weight - means.get(name, 0.0)) / number
    found = read_weights(*find_checkpoint(tmp_path))
    assert found.keys() == means.keys()
    for name, average in found.items():
        assert average.numpy() == pytest.approx(means[name], abs=1e-5), name
        assert not torch.equal(average, reader.parameter("weight", name)), name
