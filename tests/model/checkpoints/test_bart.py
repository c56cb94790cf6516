import pytest

from model.checkpoints import build_checkpoint, export_checkpoint, read_checkpoint
from model.errors import ConfigurationError
from tests.model.checkpoints.published import difference, edit_config, saved


@pytest.mark.parametrize("model_type", ["bart", "mbart"])
@pytest.mark.parametrize("scaled", [True, False])
def test_scaled_embeddings(tmp_path, model_type, scaled):
    theirs = saved(tmp_path, model_type, scale_embedding=scaled)
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) < 1e-5


@pytest.mark.parametrize("size", ["attention_heads", "ffn_dim"])
def test_stacks_of_other_sizes_are_refused(tmp_path, size):
    saved(tmp_path, "bart")
    edit_config(tmp_path, **{f"decoder_{size}": 8})
    with pytest.raises(ConfigurationError, match=f"encoder_{size} .* and decoder_{size} 8 differ"):
        read_checkpoint(tmp_path)


def test_the_encoder_alone_has_no_class(tmp_path):
    saved(tmp_path, "bart")
    with pytest.raises(ConfigurationError, match="no class for its encoder alone"):
        export_checkpoint(read_checkpoint(tmp_path), body_alone=True)
