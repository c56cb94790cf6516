import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import build_checkpoint, export_checkpoint, map_for, read_checkpoint
from tests.model.checkpoints.published import LAYER_TYPES, VOCABULARY, apart, difference, edit_config, saved

SIZES = {"hidden_size": 36, "num_attention_heads": 6, "num_hidden_layers": 5, "layer_types": LAYER_TYPES}


def options(draw, found):
    act = found["hidden_activation"]
    biases = {"decoder_bias": draw.choice([True, False]), "classifier_bias": draw.choice([True, False])}
    return {"cls_token_id": 1, "sep_token_id": 2, "local_attention": draw.choice([7, 8]), "classifier_activation": act,
            **SIZES, **biases}  # fmt: skip


def largest(model, theirs, columns=23):
    ids = torch.randint(4, VOCABULARY, (2, columns), generator=torch.Generator().manual_seed(columns))
    ours = {"input_ids": ids, "position_ids": torch.arange(columns)[None], "lengths": torch.tensor([columns] * 2)}
    with torch.no_grad():
        return apart(model.logits(ours)["lm"], theirs(input_ids=ids).logits)


@pytest.mark.parametrize(("local_attention", "seen"), [(8, 4), (7, 3), (2, 1)])
def test_a_window_counts_the_token_itself(tmp_path, local_attention, seen):
    theirs = saved(tmp_path, "modernbert-decoder", local_attention=local_attention)
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint.config.local.window == seen - 1
    assert map_for(checkpoint.config, checkpoint.token_ids).model_type == "modernbert-decoder"
    assert max(largest(build_checkpoint(checkpoint), theirs, n) for n in (1, 3, 4, 5, 23)) < 1e-5
    assert export_checkpoint(checkpoint).config["sliding_window"] == seen
    edit_config(tmp_path, sliding_window=None)
    assert read_checkpoint(tmp_path).config == checkpoint.config
    edit_config(tmp_path, sliding_window=seen + 1)
    assert largest(build_checkpoint(read_checkpoint(tmp_path)), theirs) > 1e-3


@pytest.mark.parametrize("biased", [True, False])
def test_the_scores_may_have_no_bias(tmp_path, biased):
    theirs = saved(tmp_path, "modernbert-decoder", decoder_bias=biased)
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint.config.heads["lm"].bias == biased
    assert ("heads.lm.projection.bias" in checkpoint.tensors) == biased
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5
    assert export_checkpoint(checkpoint).config["decoder_bias"] == biased


def test_one_base_for_all_layers_is_seen(tmp_path):
    theirs = saved(tmp_path, "modernbert-decoder")
    edit_config(tmp_path, rope_parameters={kind: {"rope_theta": 1e4} for kind in set(LAYER_TYPES)})
    assert largest(build_checkpoint(read_checkpoint(tmp_path)), theirs) > 1e-3


def test_a_head_with_another_activation_is_refused(tmp_path):
    saved(tmp_path, "modernbert-decoder", hidden_activation="gelu", classifier_activation="relu")
    with pytest.raises(ConfigurationError, match="classifier_activation: expected that of the layers, 'gelu', got 're"):
        read_checkpoint(tmp_path)
