"""Heads of a published model without a training set."""

from __future__ import annotations

from pathlib import Path

import pytest
import transformers

from clozeline.configuration.config import validate
from clozeline.pipeline.shards import open_shards
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.startup.checks import leave_out_heads
from tests.train.masked_set import write_masked_sets
from tests.train.synthetic import plain_config


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_masked_sets(tmp_path_factory.mktemp("sets"))


@pytest.fixture(scope="module")
def published(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT with both heads of its pretraining."""
    folder = tmp_path_factory.mktemp("published")
    size = open_shards(shards).manifest.tokenizer.vocab_size
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    transformers.BertForPreTraining(transformers.BertConfig(vocab_size=size, **sizes)).save_pretrained(folder)
    return folder


def config_of(shards: Path, model: dict[str, object]) -> TrainConfig:
    settings = plain_config(data__shards=str(shards), output="unused")
    return validate(TrainConfig, {**settings, "model": model}, "test")


def test_a_head_that_no_set_trains_is_left_out(published: Path, shards: Path) -> None:
    config = config_of(shards, {"init_from": str(published)})
    assert set(config.model.heads) == {"masked_lm", "sentence"}
    kept, left_out = leave_out_heads(config)
    assert (set(kept.model.heads), left_out) == ({"masked_lm"}, ("sentence",))
    assert leave_out_heads(kept) == (kept, ())


@pytest.mark.parametrize("heads", [{"masked_lm": 1.0, "span_boundary": 1.0}, {"sentence": 1.0}])
def test_other_heads_are_the_users(published: Path, shards: Path, heads: dict[str, float]) -> None:
    """A head that the model does not have, or the only one, is a mistake that opening the sets reports."""
    config = config_of(shards, {"init_from": str(published), "heads": heads})
    assert leave_out_heads(config) == (config, ())
