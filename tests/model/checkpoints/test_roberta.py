import pytest

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import read_checkpoint
from tests.model.checkpoints.published import edit_config, saved


def options(draw, found):
    return {"max_position_embeddings": 20, "pad_token_id": draw.choice([0, 1, 3]), "type_vocab_size": 1}


@pytest.mark.parametrize("pad", [0, 1, 3])
def test_places_begin_behind_the_padding_id(tmp_path, pad):
    saved(tmp_path, "roberta", pad_token_id=pad)
    position = read_checkpoint(tmp_path).config.position
    assert (position.offset, position.maximum) == (pad + 1, 20 - pad - 1)


def test_a_padding_id_beyond_the_table_is_refused(tmp_path):
    saved(tmp_path, "roberta")
    edit_config(tmp_path, pad_token_id=19)
    with pytest.raises(ConfigurationError, match="pad_token_id and max_position_embeddings"):
        read_checkpoint(tmp_path)


def test_the_head_has_the_exact_gelu_whatever_the_body_has(tmp_path):
    saved(tmp_path, "roberta", hidden_act="relu")
    with pytest.raises(ConfigurationError, match="hidden_act: expected one of gelu"):
        read_checkpoint(tmp_path)
