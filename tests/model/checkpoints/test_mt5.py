from clozeline.model.checkpoints import build_checkpoint, read_checkpoint
from tests.model.checkpoints.published import difference, edit_config, saved


def options(draw, found):
    kind = draw.choice(["relu", "gated-gelu", "gated-silu", "gelu"])
    return {"d_kv": draw.choice([3, 6]), "feed_forward_proj": kind, "decoder_start_token_id": 0}


def test_its_states_are_never_scaled_and_its_block_is_gated(tmp_path):
    theirs = saved(tmp_path, "mt5", feed_forward_proj="gated-gelu")
    edit_config(tmp_path, feed_forward_proj=None, scale_decoder_outputs=True)
    config = read_checkpoint(tmp_path).config
    assert (config.out_scale, config.gated, config.activation) == (False, True, "gelu_tanh")
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) < 1e-5
