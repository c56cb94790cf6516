"""Guesses for masks, with an untrained model over real sets."""

import pytest
import torch

from clozeline.model.build import build_model
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.position import PositionConfig
from clozeline.pipeline.shards import open_shards
from clozeline.tools.runs.fill_mask import iterate_masked_words
from clozeline.train.data.sets.recorded_sets import describe_set
from clozeline.train.data.stream.phases import Input
from tests.tools.small_run import example_sets
from tests.train.written_runs import opened


@pytest.fixture(scope="module")
def trained(shard_sets):
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


def test_hidden_words_are_whole_words_of_original_rows(trained, shard_sets):
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
