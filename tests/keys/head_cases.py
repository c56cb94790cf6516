"""A value for each key of heads and adapters that is not its default, and what must stand next to
it to be read."""

HIDDEN = {"hidden": "tanh"}
SIZES = {
    "classification": {"classes": 3},
    "tagging": {"classes": 3},
    "similarity": {"group_size": 3},
}
"""Keys without which a head cannot be built."""

HEAD_VALUES = {
    "weight": 3.0,
    "normalize": "row",
    "label_chunk": 2,
    "z_loss": 0.5,
    "activation": "relu",
    "transform": False,
    "projection": "transformed",
    "activation_penalty": 0.5,
    "change_penalty": 0.5,
    "classes": 5,
    "labels": ["bad", "fair", "good"],
    "multi_label": True,
    "output": "sigmoid",
    "range": [-1.0, 6.0],
    "target_scale": [2.0, 3.0],
    "pool": "mean",
    "scalar_mix": True,
    "exits": "joint",
    "input_dropout": 0.5,
    "hidden": "gelu",
    "hidden_dim": 7,
    "hidden_norm": True,
    "dropout": 0.5,
    "bias": False,
    "max_span_tokens": 2,
    "copy_weight": 3.0,
    "temperature": 0.7,
    "group_size": 2,
    "negatives": "both",
    "margin": 0.3,
    "positive_threshold": 2.0,
}
READ_WITH = {
    "hidden_dim": HIDDEN,
    "hidden_norm": HIDDEN,
    "regression.range": {"output": "sigmoid"},
    "similarity.range": {"negatives": "none", "group_size": 8},
    "lm.bias": {"projection": "biased"},
    "lm.activation": {"projection": "transformed"},
}
"""Keys that must stand next to a key so that its head reads it; without them it is refused."""
HEAD_NEUTRAL = {
    "label_chunk": "memory: the same sums, of labels in parts",
    "labels": "names, which predictions show",
    "lm.bias": "false says what is so already: a linear projection has no bias",
}

ADAPTER_VALUES = {
    "bottleneck.width": 5,
    "bottleneck.after": "feed_forward",
    "lora.rank": 3,
    "lora.alpha": 3.0,
    "lora.rank_stabilized": True,
    "lora.dropout": 0.5,
    "lora.targets": ["key"],
    "lora.rank_pattern": {"query": 2},
    "lora.alpha_pattern": {"query": 2.0},
    "lora.rate_ratio": 4.0,
    "prefix.length": 3,
    "prefix.hidden": 6,
    "prompt.length": 3,
    "prompt.tokens": [5, 6],
}
