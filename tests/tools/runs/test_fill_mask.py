"""Guesses for masks, with an untrained model over real sets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from clozeline.model.build import build_model
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.position import PositionConfig
from clozeline.pipeline.shards import open_shards
from clozeline.tools.runs.fill_mask import guesses, iterate_masked_words
from clozeline.train.data.sets.recorded_sets import describe_set
from clozeline.train.data.stream.phases import Input
from clozeline.train.startup.open_run import Run
from tests.tools.small_run import example_sets
from tests.train.written_runs import opened


@pytest.fixture(scope="module")
def trained(shard_sets: Path) -> Run:
    shards = open_shards(example_sets(shard_sets)["masked_lm"][0])
    facts = shards.manifest.tokenizer
    config = ModelConfig(
        family="encoder", dim=8, layers=1, attention_heads=2, ffn_dim=8, heads={"masked_lm": 1.0},
        position=PositionConfig(maximum=64),
    )  # fmt: skip
    torch.manual_seed(1)
    model = build_model(config, facts.vocab_size, facts.special_ids).eval()
    sets = (describe_set(shards.path, Input(shards)),)
    return opened(model, shard_sets / "train_tokenizer", sets)


def test_hidden_words_are_whole_words_of_original_rows(trained: Run, shard_sets: Path) -> None:
    mask = trained.tokenizer.vocabulary.specials["mask"]
    found = list(
        iterate_masked_words(
            trained, open_shards(example_sets(shard_sets)["masked_lm"][0].parent.parent / "heldout"), 4
        )
    )
    assert 1 <= len(found) <= 4
    for ids, position in found:
        assert mask not in ids
        word = trained.tokenizer.decode_part([int(ids[position])]).strip()
        assert len(word) >= 4
        assert word.isalpha()
        after = trained.tokenizer.decode_part([int(ids[position + 1])])
        assert not after[:1].isalnum() or trained.tokenizer.vocabulary.word_start[ids[position + 1]]


def test_guesses_are_the_most_probable_tokens(trained: Run) -> None:
    ids = np.array([1, 300, 3, 400, 2])
    found = guesses(trained, ids, 2, 5)
    tensors = {
        "input_ids": torch.tensor(ids)[None],
        "position_ids": torch.arange(5)[None],
        "lengths": torch.tensor([5]),
    }
    with torch.no_grad():
        expected = trained.model.logits(tensors)["masked_lm"][0, 2].softmax(-1).sort(descending=True)
    assert [guess.probability for guess in found] == pytest.approx(expected.values[:5].tolist())
    assert [guess.text for guess in found] == [
        trained.tokenizer.decode_part([token]) for token in expected.indices[:5].tolist()
    ]
