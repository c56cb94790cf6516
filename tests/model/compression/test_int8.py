"""int8 as a method: what a training for it computed, and what is said about tables."""

from dataclasses import replace

import pytest

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import build_checkpoint, is_quantized
from clozeline.registry import choose
from tests.model.compression.compressed_models import compressed, logits, odd_checkpoint
from tests.model.quantization.quantized_models import checkpoint_of, model_of, trained_for
from tests.model.small_models import batch_for, small_config


@pytest.mark.parametrize("embeddings", [False, True])
def test_logits_of_a_training_are_those_of_its_export(embeddings):
    entry = {"name": "int8", "embeddings": embeddings}
    trained = trained_for(model_of(small_config("encoder")), entry)
    checkpoint = replace(checkpoint_of(trained), config=trained.config)
    found = compressed(checkpoint, "int8", embeddings=embeddings).checkpoint
    assert is_quantized(found)
    tensors = batch_for("encoder")
    assert (logits(build_checkpoint(found), tensors) - logits(trained, tensors)).abs().max() <= 1e-5


def test_it_says_what_happens_to_a_tied_head():
    left = compressed(odd_checkpoint(), "int8").lines
    assert left == (
        "int8: 30 matrices, rounded to the nearest",
        "left in fp32: norms, biases, heads, the token table, and the tied head masked_lm",
    )
    rounded = compressed(odd_checkpoint(), "int8", embeddings=True).lines
    assert rounded[0] == "int8: 31 matrices, rounded to the nearest"
    assert rounded[1].endswith("the token table has a scale per row; the tied head masked_lm reads the same integers")
    untied = compressed(odd_checkpoint(tied=False), "int8", embeddings=True).lines
    assert untied[0] == "int8: 32 matrices, rounded to the nearest"
    assert "tied" not in untied[1]


def test_tensors_that_stay_are_shared():
    dense = odd_checkpoint()
    found = compressed(dense, "int8").checkpoint.tensors
    assert found["family.tokens.weight"] is dense.tensors["family.tokens.weight"]


def test_a_second_time_is_refused():
    found = compressed(odd_checkpoint(), "int8").checkpoint
    with pytest.raises(ConfigurationError, match="got integers of int8"):
        compressed(found, "int8")


def test_options_are_those_of_the_format():
    assert choose("clozeline.model.compression", "int8").plain() == {"name": "int8", "embeddings": False}
