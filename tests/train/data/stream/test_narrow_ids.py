"""Ids that travel as uint16 or int32 are the same ids on the device, the same batches, and the same training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clozeline.configuration.config import load_config
from clozeline.errors import ConfigurationError
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.stream.stream import Stream
from clozeline.train.distributed.process_group import World
from clozeline.train.engine import wide_ids
from clozeline.train.logs.json_lines import read_lines
from clozeline.train.run import run
from tests.distributed import RankPool
from tests.model.small_models import FAMILIES
from tests.shard_sets import TOKENIZER, toy_set
from tests.train.data.stream.test_filler_rows import LANES, example_set
from tests.train.masked_set import write_config, write_masked_sets

NARROW: Any = ["uint16", "int32"]


@given(st.lists(st.integers(0, 65535), min_size=1, max_size=20))
def test_every_id_survives(ids: list[int]) -> None:
    """The ends and the sign bit of 16 bits among them."""
    for dtype in (np.uint16, np.int32, np.int64):
        widened = wide_ids(torch.from_numpy(np.array([0, 32767, 32768, 65535, *ids], dtype)))
        assert widened.dtype == torch.int64
        assert widened.tolist() == [0, 32767, 32768, 65535, *ids]


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("family", FAMILIES)
def test_batches_are_the_same_but_for_the_width_of_ids(tmp_path: Path, family: str, dtype: Any) -> None:
    """Rows of many lengths, with filler, of every architecture; the finite pass included."""
    shards = example_set(tmp_path, family)
    options: Any = {"rank": 0, "world_size": 1, "lanes": LANES, "seed": 1, "global_batch": LANES, "micro_batch": 4}
    with Stream(shards, token_dtype=dtype, **options) as narrow, Stream(shards, **options) as wide:
        pairs = [(a, b) for _ in range(5) for a, b in zip(narrow.next_step(), wide.next_step(), strict=True)]
        for steps in zip(narrow.one_pass(), wide.one_pass(), strict=True):
            pairs += zip(*steps, strict=True)
    for found, want in pairs:
        assert found.tensors["input_ids"].dtype == getattr(torch, dtype)
        widened = found.tensors | {"input_ids": wide_ids(found.tensors["input_ids"])}
        assert widened.keys() == want.tensors.keys()
        for name, tensor in want.tensors.items():
            assert torch.equal(widened[name], tensor), name
            assert widened[name].dtype == tensor.dtype, name


def losses(world: World, config: Path, overrides: list[str]) -> list[tuple[str, str]]:
    loaded = load_config(TrainConfig, config, overrides)
    assert run(loaded, joined=world) == 0
    records = read_lines(loaded.output / "metrics.jsonl")
    return [(record["loss"].hex(), str(record.get("heldout"))) for record in records]


def test_runs_are_the_same_to_the_last_bit(one_rank: RankPool, tmp_path: Path) -> None:
    """Training and evaluation; a run may go on with another width."""
    config = write_config(tmp_path / "a.yaml", write_masked_sets(tmp_path / "corrupt"), tmp_path / "int64")
    ((*expected,),) = one_rank.run(losses, config, [])
    output = f"output={tmp_path / 'narrow'}"
    one_rank.run(losses, config, [output, "data.token_dtype=uint16", "steps=4", "evaluate.max_rows=0"])
    assert one_rank.run(losses, config, [output, "data.token_dtype=int32"]) == [expected]


def test_a_vocabulary_beyond_16_bits_is_refused(tmp_path: Path) -> None:
    options: Any = {"rank": 0, "world_size": 1, "seed": 1, "global_batch": 8, "micro_batch": 8}
    shards = toy_set(tmp_path / "fits", [9], tokenizer={**TOKENIZER, "vocab_size": 65536})
    Stream(shards, token_dtype="uint16", **options).close()
    shards = toy_set(tmp_path / "not", [9], tokenizer={**TOKENIZER, "vocab_size": 65537})
    with pytest.raises(ConfigurationError, match="token_dtype: uint16 cannot hold"):
        Stream(shards, token_dtype="uint16", **options)
