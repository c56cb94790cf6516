from dataclasses import replace

import pytest

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import build_checkpoint, export_checkpoint, map_for, read_checkpoint
from tests.model.checkpoints._conversion.test_task_heads import difference as task_difference
from tests.model.checkpoints._conversion.test_task_heads import saved as saved_task
from tests.model.checkpoints.published import difference, edit_config, saved


def options(draw, found):
    """Twice as many query heads as keys and values, of another width than the states divided by their number."""
    theta = draw.choice([50.0, 777.0])
    return {
        "num_attention_heads": 2 * found["num_attention_heads"],
        "rms_norm_eps": 3e-4,
        "rope_parameters": {"rope_type": "default", "rope_theta": theta},
        "mask_token_id": 3,
        "classifier_pooling": draw.choice(["bos", "mean", "late"]),
    }


@pytest.mark.parametrize("biased", [True, False])
def test_the_head_has_a_bias_where_the_blocks_have(tmp_path, biased):
    theirs = saved(tmp_path, "eurobert", mlp_bias=biased)
    checkpoint = read_checkpoint(tmp_path)
    head = checkpoint.config.heads["masked_lm"]
    assert (head.transform, head.bias) == (False, biased)
    assert ("heads.masked_lm.projection.bias" in checkpoint.tensors) == biased
    assert checkpoint.token_ids["mask_token_id"] == 3
    assert map_for(checkpoint.config, checkpoint.token_ids).model_type == "eurobert"
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5


@pytest.mark.parametrize(
    ("changes", "key"),
    [({"bias": False}, "bias: expected true"), ({"transform": True}, "transform: expected false")],
    ids=["bias", "transform"],
)
def test_another_head_is_refused(tmp_path, changes, key):
    saved(tmp_path, "eurobert", mlp_bias=True)
    checkpoint = read_checkpoint(tmp_path)
    heads = {"masked_lm": replace(checkpoint.config.heads["masked_lm"], **changes)}
    with pytest.raises(ConfigurationError, match=rf"masked_lm\.{key} in a model of type eurobert"):
        export_checkpoint(replace(checkpoint, config=replace(checkpoint.config, heads=heads)))


@pytest.mark.parametrize(("pooling", "pool"), [("late", "late"), ("mean", "mean"), ("bos", "cls"), (None, "late")])
def test_a_text_is_scored_in_three_ways(tmp_path, pooling, pool):
    theirs = saved_task(tmp_path, "eurobert", "classification", classifier_pooling=pooling or "late")
    if pooling is None:
        edit_config(tmp_path, classifier_pooling=None)
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint.config.heads["classification"].pool == pool
    assert task_difference(build_checkpoint(checkpoint), theirs, "classification") < 1e-5
    assert export_checkpoint(checkpoint).config["classifier_pooling"] == (pooling or "late")


def test_an_unknown_pool_is_refused(tmp_path):
    saved_task(tmp_path, "eurobert", "classification")
    edit_config(tmp_path, classifier_pooling="max")
    with pytest.raises(ConfigurationError, match="classifier_pooling: expected one of late, mean, bos, got 'max'"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize(
    "keys",
    [{"rope_parameters": {"rope_theta": 1e4}}, {"rms_norm_eps": 1e-2}, {"hidden_act": "gelu"}],
    ids=["base", "eps", "activation"],
)
def test_a_wrong_key_is_seen(tmp_path, keys):
    theirs = saved(tmp_path, "eurobert", hidden_act="silu")
    edit_config(tmp_path, **keys)
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) > 1e-4


def test_every_token_is_seen_from_both_sides(tmp_path):
    theirs = saved(tmp_path, "eurobert")
    model = build_checkpoint(read_checkpoint(tmp_path))
    model.family.stack.causal = True
    assert difference(model, theirs) > 1e-2
