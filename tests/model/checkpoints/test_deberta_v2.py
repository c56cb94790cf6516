import pytest

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import build_checkpoint, read_checkpoint
from tests.model.checkpoints.published import difference, edit_config, saved
from tests.model.checkpoints.test_deberta import options as options_of_deberta


def options(draw, found):
    return options_of_deberta(draw, found) | {
        "position_buckets": draw.choice([-1, 4, 6]),
        "share_att_key": draw.choice([True, False]),
        "norm_rel_ebd": draw.choice(["none", "layer_norm"]),
        "conv_kernel_size": draw.choice([0, 3, 5]),
        "conv_act": found["hidden_act"],
    }


@pytest.mark.parametrize("buckets", [-1, 4, 6])
@pytest.mark.parametrize("shared", [False, True], ids=["own projections", "shared projections"])
@pytest.mark.parametrize("scores", ["c2p", "p2c", "p2c|c2p"])
def test_every_combination_of_scores_buckets_and_projections(tmp_path, scores, shared, buckets):
    changes = {"pos_att_type": scores, "share_att_key": shared, "position_buckets": buckets, "num_hidden_layers": 2}
    theirs = saved(tmp_path, "deberta-v2", **changes)
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) < 1e-5


def test_keys_of_published_files(tmp_path):
    """The largest ones state the width of a head, and the activation of the convolution."""
    sizes = {"num_attention_heads": 3, "hidden_size": 12}
    theirs = saved(tmp_path, "deberta-v2", **sizes, conv_kernel_size=3, conv_act="gelu", hidden_act="gelu")
    edit_config(tmp_path, attention_head_size=4, conv_groups=1)
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint.notes == ()
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"conv_kernel_size": 3, "conv_act": "tanh"}, "conv_act: expected that of hidden_act gelu, got tanh"),
        ({"conv_kernel_size": 3, "conv_act": None}, "conv_act: .*got tanh"),
        ({"conv_kernel_size": 4, "conv_act": "gelu"}, "an odd number of tokens, got 4"),
        ({"conv_groups": 2}, "conv_groups: expected 1, got 2"),
        ({"attention_head_size": 5}, "attention_head_size: expected hidden_size / num_attention_heads, got 5"),
        ({"position_buckets": 60}, "max_distance: expected 32 or more"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_other_computations_are_refused(tmp_path, changes, words):
    saved(tmp_path, "deberta-v2", hidden_act="gelu", conv_act="gelu", hidden_size=12, num_attention_heads=3)
    edit_config(tmp_path, **changes)
    with pytest.raises(ConfigurationError, match=words):
        read_checkpoint(tmp_path)
