from dataclasses import replace

import pytest
import torch

from clozeline.model.checkpoints import build_checkpoint, map_for, read_checkpoint
from tests.model.checkpoints.published import difference, saved


def options(draw, found):
    return {"max_position_embeddings": 20, "pad_token_id": draw.choice([0, 1, 3]), "type_vocab_size": 1}


def test_norms_by_name(tmp_path):
    """Before attention, before the feed-forward block, and after the last layer; none after the embeddings."""
    theirs = saved(tmp_path, "xlm-roberta-xl", num_hidden_layers=2)
    checkpoint = read_checkpoint(tmp_path)
    layer = theirs.roberta.encoder.layer[1]
    places = {
        "family.stack.layers.1.attention.norm.weight": layer.attention.self_attn_layer_norm.weight,
        "family.stack.layers.1.feed_forward.norm.weight": layer.LayerNorm.weight,
        "family.stack.norm.weight": theirs.roberta.encoder.LayerNorm.weight,
    }
    assert all(torch.equal(checkpoint.tensors[name], weight) for name, weight in places.items())
    assert not any("embeddings.norm" in name for name in checkpoint.tensors)
    assert map_for(checkpoint.config, checkpoint.token_ids).model_type == "xlm-roberta-xl"


@pytest.mark.parametrize("changes", [{"norm_place": "post"}, {"eps": 1e-2}], ids=["post-norm", "eps"])
def test_a_wrong_rule_is_seen(tmp_path, changes):
    theirs = saved(tmp_path, "xlm-roberta-xl")
    checkpoint = read_checkpoint(tmp_path)
    wrong = replace(checkpoint, config=replace(checkpoint.config, **changes))
    assert difference(build_checkpoint(wrong), theirs) > 1e-3


def test_positions_begin_behind_the_padding_id(tmp_path):
    theirs = saved(tmp_path, "xlm-roberta-xl", pad_token_id=1)
    checkpoint = read_checkpoint(tmp_path)
    position = checkpoint.config.position
    assert (position.offset, position.maximum) == (2, 18)
    wrong = replace(checkpoint.config, position=replace(position, offset=0, maximum=20))
    assert difference(build_checkpoint(replace(checkpoint, config=wrong)), theirs) > 1e-3
