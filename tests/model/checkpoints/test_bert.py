import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers.activations import ACT2FN

from clozeline.errors import WeightsError
from clozeline.model.checkpoints import build_checkpoint, export_checkpoint, read_checkpoint
from clozeline.model.checkpoints._conversion.tables import ACTIVATIONS as NAMES
from clozeline.model.layers.activation import ACTIVATIONS
from tests.model.checkpoints.published import difference, edit_config, saved


@pytest.mark.parametrize("model_type", ["bert", "roberta"])
def test_an_untied_projection_reads_its_own_bias(tmp_path, model_type):
    theirs = saved(tmp_path, model_type, tie_word_embeddings=False)
    checkpoint = read_checkpoint(tmp_path)
    assert not checkpoint.config.tied
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5
    exported = export_checkpoint(checkpoint).tensors
    assert set(exported) == set(theirs.state_dict())


def test_every_name_of_an_activation_that_we_have_is_known():
    """Theirs with the values of one of ours, and no other."""
    draw = torch.linspace(-12, 12, 301)
    ours = {name: act(draw) for name, act in ACTIVATIONS.items() if name not in ("tanh", "identity")}
    found = {
        theirs: next(
            (name for name, values in ours.items() if (ACT2FN[theirs](draw) - values).abs().max() < 1e-6), None
        )
        for theirs in ACT2FN
        if "xielu" not in theirs  # it has parameters
    }
    assert {theirs: name for theirs, name in found.items() if name is not None} == NAMES


def test_defaults_of_old_files_are_those_of_the_class(tmp_path):
    usual = {"hidden_act": "gelu", "layer_norm_eps": 1e-12, "type_vocab_size": 2, "tie_word_embeddings": True}
    theirs = saved(tmp_path, "bert", **usual)
    edit_config(tmp_path, **dict.fromkeys(usual))
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) < 1e-5


def test_segment_types_are_read(tmp_path):
    theirs = saved(tmp_path, "bert", type_vocab_size=2)
    types = torch.tensor([[0, 0, 1, 1]])
    ids = torch.tensor([[5, 6, 7, 8]])
    model = build_checkpoint(read_checkpoint(tmp_path))
    ours = {"input_ids": ids, "type_ids": types, "position_ids": torch.arange(4)[None], "lengths": torch.tensor([4])}
    with torch.no_grad():
        expected = theirs(input_ids=ids, token_type_ids=types).logits
        assert (model.logits(ours)["masked_lm"] - expected).abs().max() < 1e-5


def test_a_class_for_sentences_without_its_pooler_is_refused(tmp_path):
    saved(tmp_path, "bert masked_lm+sentence")
    path = tmp_path / "model.safetensors"
    save_file({name: tensor for name, tensor in load_file(path).items() if "pooler" not in name}, path)
    with pytest.raises(WeightsError, match=r"2 tensors are missing: bert.pooler.dense.bias, bert.pooler.dense.weight"):
        read_checkpoint(tmp_path)
