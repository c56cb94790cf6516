"""Local and global layers against transformers, with rows whose length is near half a window."""

import pytest
import torch
from torch.nn import functional as F

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import build_checkpoint, export_checkpoint, read_checkpoint
from clozeline.model.checkpoints._conversion.tensor_layouts import to_ours
from clozeline.model.checkpoints.modernbert import ModernBert
from tests.model.checkpoints.published import VOCABULARY, difference, edit_config, saved
from tests.model.closeness import FLOAT32, assert_gradients_close, gradients


def options(draw, found):
    return {
        "num_hidden_layers": found["num_hidden_layers"] + 2,
        "cls_token_id": 1,
        "sep_token_id": 2,
        "local_attention": draw.choice([2, 3, 5, 8]),
        "classifier_activation": found["hidden_activation"],
        "decoder_bias": draw.choice([True, False]),
        "global_attn_every_n_layers": draw.choice([2, 3]),
    }


SIZES = {"hidden_size": 12, "num_attention_heads": 3, "num_hidden_layers": 4, "global_attn_every_n_layers": 3}


def largest(model, theirs, columns):
    draw = torch.Generator().manual_seed(columns)
    ids = torch.randint(4, VOCABULARY, (2, columns), generator=draw)
    ours = {"input_ids": ids, "position_ids": torch.arange(columns)[None], "lengths": torch.tensor([columns] * 2)}
    with torch.no_grad():
        return (model.logits(ours)["masked_lm"] - theirs(input_ids=ids).logits).abs().max().item()


@pytest.mark.parametrize("local_attention", [6, 7])
def test_windows_include_both_ends(tmp_path, local_attention):
    theirs = saved(tmp_path, "modernbert", **SIZES, local_attention=local_attention)
    model = build_checkpoint(read_checkpoint(tmp_path))
    assert model.config.local.window == 3
    for columns in (1, 3, 4, 5, 17):
        assert largest(model, theirs, columns) < 1e-5


def test_hidden_states_loss_and_gradients_equal(tmp_path):
    theirs = saved(tmp_path, "modernbert", **SIZES, local_attention=4)
    model = build_checkpoint(read_checkpoint(tmp_path))
    ids = torch.randint(4, VOCABULARY, (2, 13), generator=torch.Generator().manual_seed(1))
    lengths, places = torch.tensor([13, 7]), torch.arange(13)
    index, labels = torch.tensor([2, 12, 14]), torch.tensor([5, 9, 30])
    ours = {"input_ids": ids, "position_ids": places[None], "lengths": lengths, "row_weight": torch.ones(2)}
    valid = places < lengths[:, None]
    expected = theirs(input_ids=ids, attention_mask=valid.long(), output_hidden_states=True)
    with torch.no_grad():
        assert (model.family(ours) - expected.hidden_states[-1])[valid].abs().max() < 1e-5
    loss = model(ours | {"label_index": index, "label_ids": labels})["masked_lm"]
    wanted = F.cross_entropy(expected.logits.flatten(0, 1)[index], labels, reduction="sum")
    assert loss.total.item() == pytest.approx(wanted.item(), rel=1e-5)
    loss.total.backward()
    wanted.backward()
    found = gradients(model)
    assert_gradients_close(found, to_ours(ModernBert(), model.config, gradients(theirs), found), FLOAT32)


WRONG = {
    "wider": {"local_attention": 8},
    "narrower": {"local_attention": 4},
    "one base": {"rope_parameters": {kind: {"rope_theta": 1e4} for kind in ("full_attention", "sliding_attention")}},
    "other layers": {"layer_types": None, "global_attn_every_n_layers": 2},
    "eps": {"norm_eps": 1e-3},
    "activation": {"hidden_activation": "gelu_new", "classifier_activation": "gelu_new"},
}


@pytest.mark.parametrize("keys", WRONG.values(), ids=WRONG)
def test_a_wrong_key_is_seen(tmp_path, keys):
    theirs = saved(tmp_path, "modernbert", **SIZES, local_attention=6, hidden_activation="gelu",
                   classifier_activation="gelu")  # fmt: skip
    edit_config(tmp_path, **keys)
    assert largest(build_checkpoint(read_checkpoint(tmp_path)), theirs, 17) > 1e-5


def test_the_former_keys_are_read_and_both_are_written(tmp_path):
    bases = {"full_attention": {"rope_type": "default", "rope_theta": 900.0},
             "sliding_attention": {"rope_type": "default", "rope_theta": 30.0}}  # fmt: skip
    theirs = saved(tmp_path, "modernbert", **SIZES, rope_parameters=bases)
    whole = read_checkpoint(tmp_path)
    config = export_checkpoint(whole).config
    assert config["rope_parameters"] == bases
    assert (config["global_rope_theta"], config["local_rope_theta"]) == (900.0, 30.0)
    assert config["layer_types"] == ["full_attention", "sliding_attention", "sliding_attention", "full_attention"]
    assert config["global_attn_every_n_layers"] == 3
    former = {"rope_parameters": None, "layer_types": None, "global_rope_theta": 900.0, "local_rope_theta": 30.0}
    edit_config(tmp_path, **former, global_attn_every_n_layers=3)
    assert read_checkpoint(tmp_path).config == whole.config
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) < 1e-5


@pytest.mark.parametrize("letters", ["LLGL", "GLLL", "GGGG", "LLLL"])
def test_layers_at_any_distance(tmp_path, letters):
    kinds = [{"L": "sliding_attention", "G": "full_attention"}[letter] for letter in letters]
    theirs = saved(tmp_path, "modernbert", **SIZES, local_attention=4, layer_types=kinds)
    checkpoint = read_checkpoint(tmp_path)
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5
    config = export_checkpoint(checkpoint).config
    assert config["layer_types"] == kinds
    assert ("global_attn_every_n_layers" in config) == (letters in ("GLLL", "GGGG"))


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"global_rope_theta": 1.0}, "rope keys contradict each other: rope_parameters.full_attention.rope_theta 16"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_scaling: expected none"),
        ({"rope_parameters": {"sliding_attention": {"rope_type": "yarn"}}}, "expected rope_type default, got 'yarn'"),
        ({"layer_types": ["linear_attention"] * 4}, "layer_types: expected full_attention or sliding_attention"),
        ({"classifier_activation": "relu"}, "classifier_activation: expected that of the layers, 'gelu', got 'relu'"),
    ],
    ids=["bases", "former scaling", "scaling", "layers", "activations"],
)
def test_what_is_not_built_is_refused(tmp_path, keys, words):
    saved(tmp_path, "modernbert", **SIZES, hidden_activation="gelu", classifier_activation="gelu")
    edit_config(tmp_path, **keys)
    with pytest.raises(ConfigurationError) as caught:
        read_checkpoint(tmp_path)
    assert words in str(caught.value)


def test_an_untied_projection(tmp_path):
    theirs = saved(tmp_path, "modernbert", **SIZES, tie_word_embeddings=False)
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) < 1e-5
