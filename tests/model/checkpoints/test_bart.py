from dataclasses import replace

import pytest

from model.checkpoints import build_checkpoint, export_checkpoint, read_checkpoint
from model.config import ConnectorConfig
from model.errors import ConfigurationError
from tests.model.checkpoints.published import difference, saved


@pytest.mark.parametrize("model_type", ["bart", "mbart"])
@pytest.mark.parametrize("scaled", [True, False])
def test_scaled_embeddings(tmp_path, model_type, scaled):
    theirs = saved(tmp_path, model_type, scale_embedding=scaled)
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) < 1e-5


@pytest.mark.parametrize("model_type", ["bart", "mbart"])
@pytest.mark.parametrize("scaled", [True, False])
def test_stacks_of_other_sizes(tmp_path, model_type, scaled):
    sizes = {"d_model": 12, "encoder_layers": 3, "decoder_layers": 1, "encoder_attention_heads": 2}
    sizes |= {"decoder_attention_heads": 3, "encoder_ffn_dim": 7, "decoder_ffn_dim": 20}
    theirs = saved(tmp_path, model_type, scale_embedding=scaled, **sizes)
    checkpoint = read_checkpoint(tmp_path)
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5
    assert sizes.items() <= export_checkpoint(checkpoint).config.items()


def test_a_decoder_of_another_width_has_no_class(tmp_path):
    saved(tmp_path, "bart")
    checkpoint = read_checkpoint(tmp_path)
    mapped = replace(checkpoint.config, connector=ConnectorConfig())
    with pytest.raises(ConfigurationError, match=r"differs: connector: expected False, got True$"):
        export_checkpoint(replace(checkpoint, config=mapped))
    with pytest.raises(ConfigurationError, match=r"differs: decoder_dim: expected 12, got 24; connector: "):
        export_checkpoint(replace(checkpoint, config=replace(mapped, decoder_dim=24)))


def test_the_encoder_alone_has_no_class(tmp_path):
    saved(tmp_path, "bart")
    with pytest.raises(ConfigurationError, match="no class for its encoder alone"):
        export_checkpoint(read_checkpoint(tmp_path), body_alone=True)
