import pytest

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import build_checkpoint, export_checkpoint, read_checkpoint
from tests.model.checkpoints.published import VOCABULARY, difference, edit_config, saved

READS_LEFT_PADDING = False
HAS_LOGITS_BIAS = True


def options(draw, found):
    """The published layout: eos is 0, and the last id pads and starts the decoder."""
    last = VOCABULARY - 1
    return {"pad_token_id": last, "decoder_start_token_id": last, "eos_token_id": 0, "tie_word_embeddings": True}


def test_the_published_activation(tmp_path):
    theirs = saved(tmp_path, "marian", activation_function="swish")
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint.config.activation == "silu"
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5
    assert export_checkpoint(checkpoint).config["activation_function"] == "silu"


def test_a_vocabulary_of_the_decoder_is_refused(tmp_path):
    saved(tmp_path, "marian")
    edit_config(tmp_path, decoder_vocab_size=VOCABULARY + 4)
    with pytest.raises(ConfigurationError, match="decoder_vocab_size: expected that of the encoder, 37, got 41"):
        read_checkpoint(tmp_path)
    edit_config(tmp_path, decoder_vocab_size=VOCABULARY, share_encoder_decoder_embeddings=False)
    with pytest.raises(ConfigurationError, match="share_encoder_decoder_embeddings: expected True, got False"):
        read_checkpoint(tmp_path)
