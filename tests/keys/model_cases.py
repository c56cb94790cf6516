"""Small models of every kind, and a value for each key of a model that is not its default."""

ENCODER = {
    "family": "encoder",
    "dim": 24,
    "layers": 2,
    "attention_heads": 4,
    "ffn_dim": 40,
    "type_vocab_size": 2,
    "heads": {"masked_lm": 1.0},
}
DECODER = ENCODER | {"family": "decoder", "type_vocab_size": 0, "heads": {"lm": 1.0}}
BOTH = DECODER | {"family": "encoder_decoder"}
RECURRENT = {"layers": 2, "cell_dim": 10}
LONGROPE = {
    "kind": "longrope",
    "factor": 4.0,
    "short_factor": [1.0, 1.5, 2.0],
    "long_factor": [1.0, 3.0, 4.0],
}

BASES = {
    "bert": ENCODER | {"norm_place": "post", "final_norm": False, "emb_norm": True},
    "albert": ENCODER
    | {
        "share": {"groups": 1},
        "emb_dim": 12,
        "position": {"kind": "learned", "offset": 2},
    },
    "modernbert": ENCODER
    | {
        "position": {"kind": "rope"},
        "local": {"window": 2, "global_every": 2},
        "first_norm": False,
    },
    "encoder with t5's positions": ENCODER | {"position": {"kind": "t5"}, "tied": False},
    "encoder with sinusoids": ENCODER | {"position": {"kind": "sinusoidal"}},
    "encoder without positions": ENCODER | {"position": {"kind": "none"}, "init": {"scheme": "t5"}},
    "deberta": ENCODER
    | {"norm_place": "post", "position": {"kind": "none", "disentangled": {"max_distance": 5}}},
    "deberta v2": ENCODER
    | {
        "norm_place": "post",
        "position": {
            "kind": "none",
            "disentangled": {
                "max_distance": 8,
                "buckets": 4,
                "convolution": 3,
                "shared_projections": True,
            },
        },
    },
    "mask decoder": ENCODER
    | {
        "norm_place": "post",
        "position": {"kind": "none", "disentangled": {"max_distance": 5, "mask_decoder": 2}},
    },
    "universal": ENCODER | {"share": {"groups": 1, "universal": True}},
    "mobilebert": ENCODER
    | {
        "family": "mobilebert",
        "norm_place": "post",
        "final_norm": False,
        "emb_norm": True,
        "activation": "relu",
        "bottleneck_dim": 12,
        "feed_forwards": 2,
    },
    "xlnet": ENCODER
    | {
        "family": "xlnet",
        "type_vocab_size": 0,
        "norm_place": "post",
        "final_norm": False,
        "position": {"kind": "sinusoidal"},
        "bias": {"qkv": False, "out": False},
        "heads": {"masked_lm": {"transform": False}},
    },
    "electra": ENCODER
    | {
        "family": "replaced_tokens",
        "norm_place": "post",
        "final_norm": False,
        "emb_norm": True,
        "generator": {"layers": 1, "dim": 18, "attention_heads": 3, "ffn_dim": 20},
        "heads": {"masked_lm": 1.0, "token": 50.0},
    },
    "deberta v3": ENCODER
    | {
        "family": "replaced_tokens",
        "norm_place": "post",
        "position": {"kind": "none", "disentangled": {"max_distance": 5}},
        "generator": {"layers": 1, "dim": 18, "attention_heads": 3, "ffn_dim": 20},
        "embedding_sharing": "disentangled",
        "heads": {"masked_lm": 1.0, "token": 50.0},
    },
    "gpt": DECODER,
    "llama": DECODER
    | {
        "norm": "rms",
        "activation": "silu",
        "gated": True,
        "kv_heads": 2,
        "bias": {"qkv": False, "out": False, "ffn": False},
        "position": {"kind": "rope"},
    },
    "listed layers": DECODER
    | {"local": {"window": 1, "layer_types": ["full_attention", "sliding_attention"]}},
    "phi": DECODER
    | {
        "parallel": "one_norm",
        "position": {"kind": "rope", "partial_rotary_factor": 0.7},
        "heads": {"lm": 1.0},
    },
    "llama 3": DECODER
    | {
        "position": {
            "kind": "rope",
            "scaling": {"kind": "llama3", "factor": 4.0, "original_maximum": 8},
        }
    },
    "yarn": DECODER
    | {
        "head_dim": 16,
        "position": {
            "kind": "rope",
            "scaling": {"kind": "yarn", "factor": 4.0, "original_maximum": 64},
        },
    },
    "yarn of two factors": DECODER
    | {
        "head_dim": 16,
        "position": {
            "kind": "rope",
            "scaling": {
                "kind": "yarn",
                "factor": 4.0,
                "original_maximum": 64,
                "mscale": 1.5,
                "mscale_all_dim": 0.5,
            },
        },
    },
    "longrope, long rows": DECODER
    | {"position": {"kind": "rope", "scaling": LONGROPE | {"original_maximum": 8}}},
    "longrope, short rows": DECODER
    | {"position": {"kind": "rope", "scaling": LONGROPE | {"original_maximum": 64}}},
    "bart": BOTH
    | {"norm_place": "post", "emb_norm": True, "final_norm": False, "position": {"offset": 2}},
    "t5": BOTH
    | {
        "norm": "rms",
        "activation": "relu",
        "qk_scale": 1.0,
        "out_scale": True,
        "bias": {"qkv": False, "out": False, "ffn": False},
        "position": {"kind": "t5", "buckets": 8, "max_distance": 12},
        "init": {"scheme": "t5"},
    },
    "shared stacks": BOTH | {"share": {"stacks": True}},
    "narrow decoder": BOTH
    | {
        "tied": False,
        "decoder_dim": 16,
        "decoder_attention_heads": 2,
        "connector": {"hidden_dim": 10},
    },
    "awd_lstm": RECURRENT
    | {"family": "awd_lstm", "dim": 24, "layers": 3, "heads": {"regularized_lm": 1.0}},
    "lstm_encoder_decoder": RECURRENT
    | {"family": "lstm_encoder_decoder", "dim": 24, "heads": {"lm": 1.0}},
    "elmo": RECURRENT
    | {
        "family": "elmo",
        "dim": 48,
        "max_characters": 7,
        "character_dim": 3,
        "filters": [[1, 4], [3, 5]],
        "heads": {"bidirectional_lm": 1.0},
    },
}
"""A small model of each kind, whose parts differ."""

VALUES = {
    "dim": [48],
    "layers": [4],
    "decoder_layers": [3],
    "decoder_dim": [32],
    "connector": [{}],
    "connector.hidden_dim": [12],
    "decoder_attention_heads": [6],
    "decoder_ffn_dim": [20],
    "attention_heads": [2],
    "kv_heads": [1],
    "head_dim": [8],
    "ffn_dim": [32],
    "emb_dim": [18],
    "out_dim": [30],
    "tied": [False, True],
    "vocab_multiple": [16],
    "type_vocab_size": [3],
    "languages": [2],
    "norm": ["layer", "rms", "rms_one"],
    "eps": [1e-3],
    "norm_place": ["pre", "post", "both", "branch"],
    "parallel": ["two_norms", "one_norm"],
    "first_norm": [False],
    "final_norm": [False, True],
    "emb_norm": [False, True],
    "activation": ["gelu_tanh", "relu", "relu_squared", "silu"],
    "gated": [False, True],
    "ffn_norm": [True],
    "bias.qkv": [False, True],
    "bias.key": [False],
    "bias.out": [False, True],
    "bias.ffn": [False, "down", True],
    "bias.norm": [False],
    "bias.head": [False],
    "qk_scale": [0.3],
    "qk_norm": ["head", "all"],
    "attn_logit_softcapping": [0.5],
    "final_logit_softcapping": [0.5],
    "share.groups": [1],
    "share.group_layers": [2],
    "share.stacks": [True],
    "share.universal": [True],
    "scale_by_depth": [True],
    "local": [{"window": 0, "global_every": 2}],
    "local.window": [0],
    "local.global_every": [1],
    "local.layer_types": [["sliding_attention", "sliding_attention"]],
    "local.theta": [100.0],
    "position.kind": ["learned", "sinusoidal", "rope", "t5", "alibi", "none"],
    "position.maximum": [100],
    "position.offset": [3],
    "position.waves": ["halves"],
    "position.theta": [100.0],
    "position.partial_rotary_factor": [0.4],
    "position.nope_layers": [[1]],
    "position.scaling": [{"kind": "linear", "factor": 2.0}],
    "position.scaling.kind": ["linear", "dynamic"],
    "position.scaling.factor": [3.0],
    "position.scaling.original_maximum": [6],
    "position.scaling.low_freq_factor": [2.0],
    "position.scaling.high_freq_factor": [8.0],
    "position.scaling.beta_fast": [2.0],
    "position.scaling.beta_slow": [0.2],
    "position.scaling.truncate": [False],
    "position.scaling.attention_factor": [1.7],
    "position.scaling.mscale": [2.0],
    "position.scaling.mscale_all_dim": [2.0],
    "position.scaling.short_factor": [[1.0, 2.0, 3.0]],
    "position.scaling.long_factor": [[1.0, 2.0, 3.0]],
    "position.buckets": [6],
    "position.max_distance": [20],
    "position.per_layer": [True],
    "position.disentangled": [{}],
    "position.disentangled.content_to_position": [False],
    "position.disentangled.position_to_content": [False],
    "position.disentangled.max_distance": [7],
    "position.disentangled.buckets": [6],
    "position.disentangled.shared_projections": [True],
    "position.disentangled.norm": [True],
    "position.disentangled.convolution": [5],
    "position.disentangled.mask_decoder": [1],
    "emb_scale": [True],
    "out_scale": [True, False],
    "dropout.embedding": [0.5],
    "dropout.attention": [0.5],
    "dropout.hidden": [0.5],
    "dropout.activation": [0.5],
    "dropout.output": [0.5],
    "init.scheme": ["normal", "t5"],
    "init.std": [0.1],
    "init.cutoff": [0.7],
    "init.embedding_std": [0.3],
    "init.scale_residual": [True],
    "init.residual_std": [0.2],
    "init.head_std": [0.2],
    "init.by_depth": [True],
    "init.uniform": [True],
    "quantization": ["int8", "int8_dynamic", "int4"],
    "adapter": [{"name": "bitfit"}],
}
"""Values of each key; a base that has one already is not compared with it."""

FAMILY_VALUES = {
    "awd_lstm.cell_dim": [12],
    "awd_lstm.weight_dropout": [0.5],
    "awd_lstm.word_dropout": [0.5],
    "elmo.cell_dim": [12],
    "elmo.character_dim": [5],
    "elmo.clip": [1e-6],
    "elmo.filters": [[[2, 4]]],
    "elmo.highways": [1],
    "elmo.max_characters": [4],
    "lstm_encoder_decoder.attention": ["none", "dot"],
    "lstm_encoder_decoder.cell_dim": [12],
    "mobilebert.bottleneck_dim": [16],
    "mobilebert.feed_forwards": [3],
    "mobilebert.no_norm": [False],
    "mobilebert.wide_values": [False],
    "replaced_tokens.embedding_sharing": ["all", "disentangled"],
    "replaced_tokens.generator.attention_heads": [6],
    "replaced_tokens.generator.dim": [12],
    "replaced_tokens.generator.ffn_dim": [30],
    "replaced_tokens.generator.layers": [2],
}

_REDUNDANT = "false says what is so already: "
_LONG_ROWS = "one of two lists, by the longest row of a batch"
_ONE_FACTOR = "a published config.json may have one factor alone, which transformers does not read"
NEUTRAL = {
    "family": "every base has its family: another one refuses keys of this one",
    "heads": "the keys of heads have entries of their own",
    "init_from": "a path, whose weights tests of starting models compare",
    "position.maximum": "where no table reads it, the longest row that an export declares",
    # a body keeps them while it is fine-tuned with a head that does not read them
    "out_scale": "of the head lm",
    "out_dim": "of the heads of vocabularies with a transform",
    "bias.head": "of the transform of a head",
    "bias.key": _REDUNDANT + "bias.qkv is false",
    "bias.norm": _REDUNDANT + "an RMSNorm has no bias",
    "yarn: position.scaling.mscale": _ONE_FACTOR,
    "yarn: position.scaling.mscale_all_dim": _ONE_FACTOR,
    "longrope, long rows: position.scaling.short_factor": _LONG_ROWS,
    "longrope, short rows: position.scaling.long_factor": _LONG_ROWS,
}
"""Keys that may change nothing, in one base or in all, with the reason."""
