"""Two rotary bases, as config.json of all times says them; layers without a list."""

import pytest

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import build_checkpoint, export_checkpoint, read_checkpoint
from tests.model.checkpoints.published import LAYER_TYPES, difference, edit_config, odd_llama, saved


def options(draw, found):
    bases = {"full_attention": 5000.0, "sliding_attention": 77.0}
    return odd_llama(draw) | {
        "attention_bias": draw.choice([True, False]),
        "query_pre_attn_scalar": 13,
        "sliding_window": draw.choice([3, 4]),
        "layer_types": LAYER_TYPES,
        "final_logit_softcapping": draw.choice([2.0, None]),
        "rope_parameters": {kind: {"rope_type": "default", "rope_theta": base} for kind, base in bases.items()},
    }


def scaled(**scaling):
    """Rotations of both types of layers, the global ones scaled."""
    return {
        "full_attention": {"rope_theta": 5000.0, "rope_type": "default", **scaling},
        "sliding_attention": {"rope_theta": 77.0, "rope_type": "default"},
    }


LINEAR = {"rope_type": "linear", "factor": 3.0}
FORMER = {"rope_parameters": None, "rope_theta": 5000.0, "rope_local_base_freq": 77.0}


@pytest.mark.parametrize("scaling", [{}, LINEAR], ids=["plain", "linear"])
def test_the_rotation_of_all_times(tmp_path, scaling):
    theirs = saved(tmp_path, "gemma3_text", rope_parameters=scaled(**scaling))
    checkpoint = read_checkpoint(tmp_path)
    assert (checkpoint.config.position.theta, checkpoint.config.local.theta) == (5000.0, 77.0)
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5
    export = export_checkpoint(checkpoint).config
    assert export["rope_parameters"] == scaled(**scaling)
    assert (export["rope_theta"], export["rope_local_base_freq"]) == (5000.0, 77.0)
    edit_config(tmp_path, **FORMER, rope_scaling=scaling or None)
    assert read_checkpoint(tmp_path).config == checkpoint.config


WRONG = {
    "one base": {
        "rope_parameters": {"full_attention": {"rope_theta": 77.0}, "sliding_attention": {"rope_theta": 77.0}}
    },
    "scaled": {"rope_parameters": scaled(**LINEAR)},
    "other layers": {"layer_types": [LAYER_TYPES[2], *LAYER_TYPES[:4]]},
    "scale of the width": {"query_pre_attn_scalar": 10},
}


@pytest.mark.parametrize("keys", WRONG.values(), ids=WRONG)
def test_a_wrong_key_is_seen(tmp_path, keys):
    theirs = saved(tmp_path, "gemma3_text")
    edit_config(tmp_path, **keys)
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) > 1e-3


def test_a_cap_of_attention_is_never_read(tmp_path):
    theirs = saved(tmp_path, "gemma3_text", attn_logit_softcapping=0.5)
    checkpoint = read_checkpoint(tmp_path)
    assert (checkpoint.config.attn_logit_softcapping, checkpoint.notes) == (None, ())
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5


@pytest.mark.parametrize(("pattern", "layers"), [(None, [5]), (2, [1, 3, 5]), (4, [3])])
def test_without_a_list_every_sixth_layer_is_global(tmp_path, pattern, layers):
    given = {} if pattern is None else {"sliding_window_pattern": pattern}
    theirs = saved(tmp_path, "gemma3_text", layer_types=None, num_hidden_layers=7, **given)
    edit_config(tmp_path, layer_types=None, sliding_window_pattern=pattern)
    checkpoint = read_checkpoint(tmp_path)
    assert [layer for layer in range(7) if not checkpoint.config.is_local(layer)] == layers
    assert difference(build_checkpoint(checkpoint), theirs) < 2e-5


def test_layers_that_all_see_the_entire_row(tmp_path):
    theirs = saved(tmp_path, "gemma3_text", layer_types=["full_attention"] * 5)
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint.config.local is None
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (
            {"rope_parameters": {"rope_theta": 5.0}},
            "expected the keys full_attention and sliding_attention, got rope_theta",
        ),
        (
            {"rope_local_base_freq": 5.0},
            "rope keys contradict each other: rope_parameters.sliding_attention.rope_theta",
        ),
        ({"rope_parameters": {"sliding_attention": LINEAR}}, "expected rope_type default, got 'linear'"),
        ({"use_bidirectional_attention": True}, "use_bidirectional_attention: expected False, got True"),
    ],
    ids=["flat", "bases", "scaled windows", "both directions"],
)
def test_what_is_not_built_is_refused(tmp_path, keys, words):
    saved(tmp_path, "gemma3_text")
    edit_config(tmp_path, **keys)
    with pytest.raises(ConfigurationError, match=words):
        read_checkpoint(tmp_path)
