"""Shard sets and a checkpoint that an earlier version wrote: read, validated, restored, streamed and resumed."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clozeline.pipeline.shards import ShardSet, open_shards
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.tools.shards.provenance.objective import rebuild_objective
from clozeline.tools.shards.validate_shards import validate
from clozeline.train.data.stream.stream import Stream
from clozeline.train.startup.run_directory import read_config
from tests.distributed import run_program

ROOT = Path(__file__).parents[1]
EARLIER = ROOT / "tests" / "data" / "earlier_version"
EXPECTED: dict[str, Any] = json.loads((EARLIER / "expected.json").read_text(encoding="utf-8"))
LABELS = sorted(EXPECTED["sets"])
TRAINING = """
model:
  {family: encoder, dim: 2, layers: 1, attention_heads: 1, ffn_dim: 6, activation: gelu, type_vocab_size: 2,
   position: {kind: rope}, heads: {masked_lm: 1.0}}
data:
  {shards: sets/corrupt/masked_lm/train, global_batch: 4, micro_batch: 4, lanes: 2, io_threads: 0,
   on_damaged: skip, max_damaged_fraction: 0.5}
optimizer: {name: adamw, learning_rate: 1e-2}
schedule: {name: linear, warmup: 1, steps: 6}
zero: {stage: 0}
log: {tensorboard: false}
evaluate: {max_rows: 8}
seed: 5
steps: 6
output: run
resume: must
"""


def opened(label: str) -> ShardSet:
    return open_shards(EARLIER / "sets" / "corrupt" / label / "train")


def sha256(parts: Any) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()


@pytest.mark.parametrize("label", LABELS)
def test_a_set_has_the_same_digest_and_passes_validation(label: str) -> None:
    shards = opened(label)
    assert (shards.digest, len(shards)) == (EXPECTED["sets"][label]["digest"], EXPECTED["sets"][label]["rows"])
    assert validate(shards.path).startswith(f"OK: {label}/train")


def test_examples_are_restored_to_their_samples() -> None:
    samples = EARLIER / "sets" / "group" / "packed-22-sep" / "train"
    assert "78 examples restored to their samples" in validate(opened("masked_lm").path, samples)


@pytest.mark.parametrize("label", LABELS)
def test_examples_are_restored_as_they_were(label: str) -> None:
    shards = opened(label)
    vocabulary = Vocabulary.load(EARLIER / "sets" / "train_tokenizer" / "tokenizer" / "vocabulary.json")
    assert shards.manifest.objective is not None
    objective = rebuild_objective(shards.manifest.objective, vocabulary)
    rows = (row for block in range(len(shards.index)) for row in shards.read_block(block))
    restored = (objective.uncorrupt(row).astype(np.uint32).tobytes() for row in rows)
    assert sha256(restored) == EXPECTED["sets"][label]["restored"]


@pytest.mark.parametrize("label", LABELS)
def test_a_stream_reads_the_same_rows_in_the_same_order(label: str) -> None:
    shards, found = opened(label), []
    settings: dict[str, Any] = {"seed": 9, "global_batch": 4, "micro_batch": 2, "lanes": 2, "io_threads": 0}
    with Stream(shards, rank=0, world_size=1, **settings) as stream:
        for _ in range(len(shards) // 2):
            for batch in stream.next_step():
                ids = batch.tensors["input_ids"].numpy()
                found += [ids.astype(np.uint32).tobytes(), batch.origin.astype(np.int64).tobytes()]
    assert sha256(found) == EXPECTED["sets"][label]["streamed"]


def test_a_saved_configuration_is_read_under_the_present_names() -> None:
    config = read_config(EARLIER / "run")
    assert (config.model.ffn_dim, config.model.activation, config.model.type_vocab_size) == (6, "gelu", 2)
    assert (config.data.on_damaged, config.data.max_damaged_fraction, config.evaluate.max_rows) == ("skip", 0.5, 8)


def test_a_run_resumes_from_its_checkpoint_under_the_present_names(tmp_path: Path) -> None:
    shutil.copytree(EARLIER, tmp_path, dirs_exist_ok=True)
    (tmp_path / "train.yaml").write_text(TRAINING, encoding="utf-8")
    program = "from clozeline.train.command import main; raise SystemExit(main(['--config', 'train.yaml']))"
    done = run_program(program, tmp_path)
    assert done.codes == [0], done.errors
    lines = (json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    losses = {str(line["step"]): line["loss"] for line in lines}
    assert list(losses) == ["1", "2", "3", "4", "5", "6"]
    assert {step: losses[step] for step in EXPECTED["losses"]} == pytest.approx(EXPECTED["losses"], abs=1e-6)
