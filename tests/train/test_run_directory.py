"""Run directories: what a start finds there, and what earlier versions wrote into them."""

from __future__ import annotations

from pathlib import Path

from pipeline.config import load_config
from tests.distributed import RankPool
from tests.train.masked_set import write_config, write_masked_sets
from train.config import TrainConfig
from train.distributed import World
from train.logs.journal import read_lines
from train.run import run
from train.run_directory import read_config


def start(world: World, config: Path, overrides: list[str]) -> int:
    return run(load_config(TrainConfig, config, overrides), joined=world)


def test_a_run_of_an_earlier_version_is_read_and_resumed(one_rank: RankPool, tmp_path: Path) -> None:
    """Its config.yaml and its checkpoints hold former names; the losses go on as if they had always been present."""
    shards = write_masked_sets(tmp_path / "corrupt")
    straight = write_config(tmp_path / "a.yaml", shards, tmp_path / "straight")
    assert one_rank.run(start, straight, []) == [0]
    output = tmp_path / "former"
    config = write_config(tmp_path / "b.yaml", shards, output)
    assert one_rank.run(start, config, ["steps=3"]) == [0]
    present = read_config(output)
    _write_former_names(output)
    assert read_config(output) == present
    assert one_rank.run(start, config, []) == [0]
    assert _losses(output) == _losses(tmp_path / "straight")


def _write_former_names(output: Path) -> None:
    path = output / "config.yaml"
    text = path.read_text(encoding="utf-8")
    for words in (("ffn_dim:", "ffn:"), ("type_vocab_size:", "types:"), ("on_damaged:", "on_corrupt:"),
                  ("max_rows:", "rows:"), ("max_damaged_fraction:", "max_corrupt_fraction:")):  # fmt: skip
        assert words[0] in text
        text = text.replace(*words)
    path.write_text(text.replace("  activation: gelu", "  act: gelu"), encoding="utf-8")
    (index,) = (output / "checkpoints").glob("step-*/checkpoint.json")
    text = index.read_text(encoding="utf-8")
    for name, former in (("ffn_dim", "ffn"), ("activation", "act"), ("type_vocab_size", "types")):
        assert f'"model.{name}":' in text
        text = text.replace(f'"model.{name}":', f'"model.{former}":')
    index.write_text(text, encoding="utf-8")


def _losses(output: Path) -> list[str]:
    return [record["loss"].hex() for record in read_lines(output / "metrics.jsonl")]
