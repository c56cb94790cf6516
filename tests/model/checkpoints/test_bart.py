from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from clozeline.errors import ConfigurationError, WeightsError
from clozeline.model.checkpoints import build_checkpoint, export_checkpoint, read_checkpoint
from clozeline.model.configuration.layer import ConnectorConfig
from tests.model.checkpoints.published import VOCABULARY, difference, edit_config, export_to, loaded, peer, saved

READS_LEFT_PADDING = False


def options(draw, found):
    """Without a tie the class has three token tables, which is not built."""
    return {"decoder_start_token_id": 2, "tie_word_embeddings": True}


@pytest.mark.parametrize("model_type", ["bart", "mbart"])
@pytest.mark.parametrize("beside", [{}, {"tie_word_embeddings": False}], ids=["tied", "untied"])
def test_a_bias_of_the_scores_comes_in_and_goes_out(tmp_path, model_type, beside):
    """The class has it as a buffer, which is 0 unless somebody has set it, as the conversion of Marian does."""
    theirs = peer(model_type)
    theirs.final_logits_bias.copy_(torch.randn(1, VOCABULARY, generator=torch.Generator().manual_seed(1)))
    theirs.save_pretrained(tmp_path / "in")
    if beside:  # a head of its own, on the same tables
        file = tmp_path / "in" / "model.safetensors"
        table = load_file(file)["model.shared.weight"]
        save_file(load_file(file) | {"lm_head.weight": table + 1}, file, {"format": "pt"})
        edit_config(tmp_path / "in", **beside)
        theirs.lm_head.weight = torch.nn.Parameter(table + 1)
    checkpoint = read_checkpoint(tmp_path / "in")
    assert checkpoint.config.heads["lm"].projection == "biased"
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5
    export = export_checkpoint(checkpoint)
    before = load_file(tmp_path / "in" / "model.safetensors")
    # without a tie the class reads the table of each stack
    tables = {f"model.{stack}.embed_tokens.weight" for stack in ("encoder", "decoder") if beside}
    assert export.tensors.keys() == before.keys() | tables
    assert all(torch.equal(export.tensors[name], tensor) for name, tensor in before.items())
    again, report = loaded(export_to(tmp_path / "out", export), export.loader)
    assert report == {}
    assert torch.equal(again.final_logits_bias, theirs.final_logits_bias)
    assert difference(build_checkpoint(checkpoint), again) < 1e-5


def test_a_table_for_each_stack_is_refused_in_words_that_are_true(tmp_path):
    """The class has them without a tie, so that no key of config.json would help."""
    saved(tmp_path, "bart", tie_word_embeddings=False)
    with pytest.raises(WeightsError, match=r"differ; a model with a token table for each of them is not built"):
        read_checkpoint(tmp_path)


def test_a_missing_bias_of_the_scores_is_none(tmp_path):
    saved(tmp_path, "bart")
    file = tmp_path / "model.safetensors"
    save_file({name: tensor for name, tensor in load_file(file).items() if name != "final_logits_bias"}, file)
    assert read_checkpoint(tmp_path).config.heads["lm"].projection == "linear"


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
