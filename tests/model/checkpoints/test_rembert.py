import pytest

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import build_checkpoint, export_checkpoint, read_checkpoint
from tests.model.checkpoints.published import difference, edit_config, saved


def test_the_projection_has_a_width_and_a_bias_of_its_own(tmp_path):
    theirs = saved(tmp_path, "rembert", output_embedding_size=9)
    checkpoint = read_checkpoint(tmp_path)
    assert (checkpoint.config.emb_dim, checkpoint.config.out_dim, checkpoint.config.tied) == (5, 9, False)
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5
    exported = export_checkpoint(checkpoint)
    assert exported.tensors["cls.predictions.decoder.weight"].shape == (37, 9)
    assert exported.config["tie_word_embeddings"] is False


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tie_word_embeddings": True}, "tie_word_embeddings: expected False, got True"),
        ({"input_embedding_size": 12}, "input_embedding_size: expected another width than hidden_size 12"),
        ({"output_embedding_size": None}, "expected the keys output_embedding_size"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_what_is_not_built_is_refused(tmp_path, changes, words):
    saved(tmp_path, "rembert", hidden_size=12, num_attention_heads=3)
    edit_config(tmp_path, **changes)
    with pytest.raises(ConfigurationError, match=words):
        read_checkpoint(tmp_path)
