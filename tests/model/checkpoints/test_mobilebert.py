import pytest
import torch
from safetensors.torch import load_file

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import build_checkpoint, export_checkpoint, read_checkpoint
from tests.model.checkpoints.published import difference, edit_config, saved

READS_LEFT_PADDING = False  # a trigram reads the pad's row on either side


def options(draw, found):
    """The stream has another width than the inside of a layer, where the heads are; at least one switch is on."""
    dim, heads = found["hidden_size"], found["num_attention_heads"]
    narrow = draw.choice([True, False])
    return {
        "hidden_size": dim + 1,
        "embedding_size": dim - draw.choice([0, 1, 3]),
        "intra_bottleneck_size": heads * 2,
        "num_feedforward_networks": draw.choice([1, 2, 4]),
        "use_bottleneck_attention": narrow,
        "key_query_shared_bottleneck": not narrow or draw.choice([True, False]),
        "classifier_activation": draw.choice([True, False]),
        "normalization_type": draw.choice(["no_norm", "layer_norm"]),
        "layer_norm_eps": 1e-5,
    }


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"normalization_type": "layer_norm", "layer_norm_eps": 1e-12}, "got layer_norm with 1e-12"),
        ({"key_query_shared_bottleneck": False, "use_bottleneck_attention": False}, "got false for both"),
        ({"trigram_input": False}, "trigram_input: expected True, got False"),
        ({"use_bottleneck": False}, "use_bottleneck: expected True, got False"),
        ({"intra_bottleneck_size": 1}, "do not divide bottleneck_dim 1"),
        ({"type_vocab_size": 0}, "type_vocab_size: expected 1 or more, got 0"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_a_computation_that_is_not_built_is_refused(changes, words, tmp_path):
    saved(tmp_path, "mobilebert", num_attention_heads=3, intra_bottleneck_size=6)
    edit_config(tmp_path, **changes)
    with pytest.raises(ConfigurationError, match=words):
        read_checkpoint(tmp_path)


def test_a_bottleneck_that_is_never_read_is_said_and_goes_out_again(tmp_path):
    switches = {"use_bottleneck_attention": True, "key_query_shared_bottleneck": True}
    theirs = saved(tmp_path, "mobilebert", num_hidden_layers=1, **switches)
    checkpoint = read_checkpoint(tmp_path)
    export = export_checkpoint(checkpoint)
    assert switches.items() <= export.config.items()
    assert export.tensors.keys() == load_file(tmp_path / "model.safetensors").keys()
    assert "mobilebert.encoder.layer.0.bottleneck.attention.dense.weight" in checkpoint.notes[0]
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5


@pytest.mark.parametrize("activated", [True, False])
def test_both_poolers_come_in_and_go_out(activated, tmp_path):
    theirs = saved(tmp_path, "mobilebert masked_lm+sentence", classifier_activation=activated)
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint.config.heads["sentence"].transform is activated
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5
    export = export_checkpoint(checkpoint)
    assert export.config["classifier_activation"] is activated
    assert ("mobilebert.pooler.dense.weight" in export.tensors) is activated


def test_the_free_part_of_the_projection_is_stored_by_columns(tmp_path):
    saved(tmp_path, "mobilebert")
    ours = read_checkpoint(tmp_path).tensors["heads.masked_lm.projection.extra.weight"]
    theirs = load_file(tmp_path / "model.safetensors")["cls.predictions.dense.weight"]
    assert torch.equal(ours.T, theirs)
