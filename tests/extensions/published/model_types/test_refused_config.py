"""Keys of config.json that ask for what is not built, contradict each other, or are damaged: all
refused by name."""

import pytest

from tests.extensions.published.model_types.test_config_json import (
    FULL,
    LINEAR,
    MODERN,
    SLIDING,
    TIED,
    WIDTH,
    read_keys,
    rotation,
)
from tests.extensions.published.type_options import LAYER_TYPES
from tests.refusals import refused

ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 50.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8,
}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 77.0,
    "short_factor": [1.1, 1.3, 2.7],
    "long_factor": [1.7, 3.1, 5],
}
ACTS = {"hidden_activation": "gelu", "classifier_activation": "gelu"}


REFUSED = [
    ("bert", {}, {"model_type": "reformer"}, "model_type: expected one of albert, bart, bert"),
    (
        "bert",
        {},
        {"hidden_size": None, "num_hidden_layers": None},
        "the keys hidden_size, num_hidden_layers are missing",
    ),
    ("bert", {}, {"hidden_size": "many"}, "type bert: hidden_size: "),
    (
        "bert",
        {},
        {"hidden_act": "mish"},
        "type bert: hidden_act: expected one of gelu, gelu_new, .*, got 'mish'",
    ),
    ("bert", {}, {"position_embedding_type": "relative_key"}, "position_embedding_type"),
    (
        "bert",
        {},
        {"is_decoder": 1, "add_cross_attention": True},
        "add_cross_attention: expected False, got True",
    ),
    ("bert", {}, {"vocab_size": None}, "vocab_size: expected a number of rows, got None"),
    (
        "albert",
        WIDTH,
        {"embedding_size": 12},
        "embedding_size: expected another width than hidden_size 12",
    ),
    ("rembert", {}, TIED, "tie_word_embeddings: expected False, got True"),
    ("roberta", {}, {"pad_token_id": 19}, "pad_token_id and max_position_embeddings"),
    ("deberta", {}, {"relative_attention": None}, "relative_attention: expected true, got None"),
    (
        "deberta",
        {},
        {"pos_att_type": ["c2p", "p2p"]},
        "pos_att_type: expected c2p and p2c, got p2p",
    ),
    ("deberta", {}, {"embedding_size": 7}, "embedding_size: expected hidden_size"),
    *(
        ("deberta-v2", {"hidden_act": "gelu", "conv_act": "gelu", **WIDTH}, edits, words)
        for edits, words in (
            (
                {"conv_kernel_size": 3, "conv_act": "tanh"},
                "conv_act: expected hidden_act gelu, got tanh",
            ),
            ({"conv_kernel_size": 3, "conv_act": None}, "conv_act: .*got tanh"),
            (
                {"attention_head_size": 5},
                "attention_head_size: expected hidden_size / num_attention_heads, got 5",
            ),
        )
    ),
    *(
        ("mobilebert", {"num_attention_heads": 3, "intra_bottleneck_size": 6}, edits, words)
        for edits, words in (
            (
                {"normalization_type": "layer_norm", "layer_norm_eps": 1e-12},
                "got layer_norm with 1e-12",
            ),
            (
                {"key_query_shared_bottleneck": False, "use_bottleneck_attention": False},
                "got false for both",
            ),
            ({"type_vocab_size": 0}, "type_vocab_size: expected 1 or more, got 0"),
        )
    ),
    *(
        ("modernbert", {**MODERN, **ACTS}, edits, words)
        for edits, words in (
            (
                {"global_rope_theta": 1.0},
                "rope keys contradict each other: rope_parameters.full_attention.rope_theta",
            ),
            ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_scaling: expected null"),
            (
                {"rope_parameters": {SLIDING: {"rope_type": "yarn"}}},
                "expected rope_type default, got 'yarn'",
            ),
            (
                {"classifier_activation": "relu"},
                "classifier_activation: expected the layers' activation, 'gelu', got 're",
            ),
        )
    ),
    (
        "modernbert-decoder",
        ACTS,
        {"classifier_activation": "relu"},
        "expected the layers' activation, 'gelu', got 'relu'",
    ),
    *(
        ("llama", ROPE, edits, words)
        for edits, words in (
            (
                {"rope_theta": 60.0},
                "contradict each other: rope_theta 60.0, rope_parameters.rope_theta 50.0",
            ),
            (
                {"rope_scaling": {"rope_type": "default", "rope_theta": 70.0}},
                "rope_scaling.rope_theta 70.0",
            ),
            (
                {"rope_scaling": LLAMA3},
                "contradict each other: rope_parameters {}, rope_scaling {'kind': 'llama3'",
            ),
            (
                {"rope_parameters": {"type": "yarn"}},
                "rope_parameters: yarn needs the keys factor, original_max_posit",
            ),
            (
                {"rope_parameters": {"rope_type": "proportional"}},
                "rope_type: expected one of default, linear, dynamic",
            ),
            (
                {"rope_parameters": {**LINEAR, "beta_fast": 3}},
                "linear does not read beta_fast; it reads factor",
            ),
            (
                {"rope_parameters": {"partial_rotary_factor": 0.5}},
                "partial_rotary_factor: expected 1.0",
            ),
            (
                {"rope_parameters": {FULL: LINEAR, SLIDING: LINEAR}},
                "expected the keys and values of one rotation",
            ),
        )
    ),
    (
        "gemma",
        {},
        {"hidden_activation": "relu", "hidden_act": "gelu"},
        "expected that of hidden_act, 'gelu'",
    ),
    (
        "gemma2",
        {},
        {"query_pre_attn_scalar": 0},
        "query_pre_attn_scalar: expected a number above 0",
    ),
    (
        "gemma3_text",
        {},
        {"rope_parameters": {"rope_theta": 5.0}},
        "expected the keys full_attention and sliding_atten",
    ),
    (
        "gemma3_text",
        {},
        {"rope_local_base_freq": 5.0},
        "contradict each other: rope_parameters.sliding_attention.rope",
    ),
    (
        "gemma3_text",
        {},
        {"rope_parameters": {SLIDING: LINEAR}},
        "expected rope_type default, got 'linear'",
    ),
    (
        "mistral",
        {},
        {"sliding_window": 0},
        "mistral: sliding_window: sliding_attention needs a window of 1 or",
    ),
    (
        "qwen2",
        {},
        {"layer_types": [FULL]},
        "layer_types: expected a type for each of num_hidden_layers 5, got 1",
    ),
    (
        "qwen2",
        {},
        {"layer_types": LAYER_TYPES, "use_sliding_window": False},
        "sliding_attention needs a window",
    ),
    (
        "smollm3",
        {},
        {"no_rope_layers": [1, 0]},
        r"no_rope_layers: expected a number for each of 5 layers, got \[1, 0",
    ),
    (
        "phi3",
        {},
        {"rope_parameters": LINEAR},
        "expected rope_type default or longrope, got 'linear'",
    ),
    (
        "phi3",
        {},
        {"partial_rotary_factor": 0.5, "rope_parameters": None},
        "expected 2 or another even .* 3 of 6",
    ),
    (
        "phi3",
        {},
        {"rope_parameters": {**LONGROPE, "short_factor": [1.0]}},
        "one divisor for each of 3 pairs .* got 1",
    ),
    (
        "gpt_neox",
        {"num_attention_heads": 3, "hidden_size": 24},
        rotation(77.0, 0.4),
        "even number .* 3 of 8",
    ),
    (
        "gpt_neox",
        rotation(77.0, 0.75),
        {"rotary_pct": 0.25},
        r"contradict each other: partial_rotary_factor 0\.25",
    ),
    ("gpt_neox", {}, {"head_dim": 6}, "head_dim: the class only reads it for the rotation"),
    (
        "opt",
        {},
        {"word_embed_proj_dim": 3},
        r"word_embed_proj_dim: expected hidden_size \d+, got 3: positions that a",
    ),
    (
        "marian",
        {},
        {"decoder_vocab_size": 41},
        "decoder_vocab_size: expected the encoder's, 37, got 41",
    ),
    ("bert", {}, {"num_attention_heads": 3}, "num_attention_heads: hidden_size [0-9]+ is not"),
    ("llama", {}, {"intermediate_size": 0}, "type llama: intermediate_size: .*got 0"),
    ("gpt2", {}, {"n_head": -1}, "type gpt2: n_head: .*got -1"),
    ("t5", {}, {"feed_forward_proj": "gated-mish"}, "feed_forward_proj: expected one of .*relu"),
]


@pytest.mark.parametrize(
    ("case", "keys", "edits", "words"), REFUSED, ids=[f"{r[0]} {'-'.join(r[2])}" for r in REFUSED]
)
def test_what_is_not_built_is_refused(case, keys, edits, words):
    with refused(words):
        read_keys(case, keys, edits)
