"""Another value for each key of the algorithms that a training chooses, and a run in which it can
be seen."""

from tests.keys.train_cases import Key, Neutral

RATES = {
    "learning_rate": Key(0.005),
    "weight_decay": Key(0.3),
    "decays": Key(["norms"]),
    "layer_decay": Key(0.5),
}
RISE = {"warmup": Key(3), "warmup_from": Key(0.5)}
SLANTED = {
    "warmup": Key(3),
    "steps": Key(6),
    "warmup_from": Neutral("refused: the ratio says it"),
}
BOUNDS = RISE | {"steps": Key(6)}
LAYERS = {"parameters": Key([".*query.weight"])}
MASKS = {"start": Key(2), "end": Key(2), "every": Key(2), **LAYERS}
WEIGHT = {"weight": Key(3.0)}
SOFT = Neutral("of mode soft, whose masks need longer runs: tests of movement pruning")
OF_TOKENS = Neutral("of a rule that removes tokens from a classifier: tests of token pruning")

ALGORITHMS = {
    ("train.optim.optimizers", "optimizer"): {
        "adafactor": ({"weight_decay": 0.1}, RATES | {"eps": Key(0.01)}),
        "adamw": (
            {},
            RATES
            | {
                "betas": Key([0.5, 0.9]),
                "eps": Key(1e-3),
            },
        ),
        **dict.fromkeys(
            ("lamb", "adamw_scale"), ({}, RATES | {"betas": Key([0.5, 0.9]), "eps": Key(1e-3)})
        ),
        "muon": (
            {"iterate_in": "fp32"},
            RATES
            | {
                "momentum": Key(0.5),
                "iterate_in": Key("bf16"),
                "adjust": Key("original"),
                "adam_rate": Key(3.0),
            }
            | {"eps": Key(1e-3)},
        ),
        "nt_asgd": (
            {"learning_rate": 1.0},
            RATES | {"patience": Neutral("the evaluations of longer runs: tests of nt_asgd")},
        ),
    },
    ("train.optim.schedules", "schedule"): {
        "constant": (
            {"warmup": 2},
            RISE | {"steps": Neutral("a constant rate has no end: what it bounds")},
        ),
        "cosine": ({"warmup": 2}, BOUNDS | {"final": Key(0.5), "cooldown": Key(0.5)}),
        "cosine_restarts": (
            {"warmup": 1, "period": 1},
            {
                "warmup": Key(3),
                "warmup_from": Neutral("of a warm-up that leaves no cycle here: tests of all"),
                "steps": Key(2),
                "period": Key(3),
                "growth": Key(1),
                "final": Key(0.5),
            },
        ),
        "inverse_sqrt": (
            {"warmup": 2},
            RISE | {"steps": Neutral("the rate falls without an end")},
        ),
        "linear": ({"warmup": 2}, BOUNDS | {"final": Key(0.5)}),
        "polynomial": ({"warmup": 2}, BOUNDS | {"power": Key(2.0), "final": Key(0.5)}),
        "slanted_triangular": ({"steps": 4}, SLANTED | {"rise": Key(0.5), "ratio": Key(4.0)}),
        "wsd": (
            {"warmup": 2, "decay": 0.5},
            BOUNDS
            | {"decay": Key(0.25), "final": Key(0.5), "fall": Key("line")}
            | {"decay_from": Neutral("of a start from another run: tests of branches")},
        ),
    },
    ("train.optim.regularizers", "regularizer"): {
        "ewc": (
            {},
            dict.fromkeys(
                ("fisher", "strength"), Neutral("needs a file of clozeline fisher: its tests")
            ),
        ),
        "l2_sp": (
            {},
            {
                "alpha": Key(0.9),
                "beta": Neutral("of weights that the first model lacks: tests of l2_sp"),
            },
        ),
    },
    ("train.hooks", "hooks"): {
        "average": (
            {},
            {"decay": Neutral("of averages that stand next to the weights: tests of averages")},
        ),
        "layer_statistics": ({}, {}),
        "start_distance": ({}, {}),
        "unfreezing": ({"every": 1}, {"every": Key(2)}),
    },
    ("extensions.compression.pruning", "prune"): {
        "layer_drop": ({"p": 0.3}, {"p": Key(0.7)}),
        "lottery": (
            {"every": 1, "rounds": 1},
            LAYERS
            | {
                "sparsity": Key(0.4),
                "rounds": Key(2),
                "every": Key(2),
            },
        ),
        "magnitude": (
            {"sparsity": 0.8, "every": 1, "end": 3},
            MASKS | {"sparsity": Key(0.5), "scope": Key("global")},
        ),
        "movement": (
            {"keep": 0.3, "end": 3},
            MASKS
            | {
                "keep": Key(0.5),
                "mode": SOFT,
                "threshold": SOFT,
                "penalty": SOFT,
                "learning_rate": SOFT,
            },
        ),
        "tokens": (
            {"shares": [1.0, 0.5]},
            {"shares": OF_TOKENS},
        ),
    },
    ("extensions.compression.distillation.losses", "distil.losses"): {
        "attention": ({}, WEIGHT | {"layers": Key({1: 2})}),
        "cosine": ({}, WEIGHT),
        "embeddings": ({}, WEIGHT),
        "relations": (
            {},
            WEIGHT
            | {
                "of": Key(["keys"]),
                "relation_heads": Key(1),
                "teacher_layer": Key(1),
            },
        ),
        "scores": (
            {},
            WEIGHT
            | {
                "temperature": Key(3.0),
                "head": Neutral("the head of several: tests of distillation"),
            }
            | {"how": Neutral("of stored scores: tests of distillation")},
        ),
        "states": ({}, WEIGHT | {"layers": Key({1: 2})}),
    },
}
"""By registry below train and the key that chooses from it: options of a run, and another value of
each option."""

BESIDE = {
    "regularizer": {"model.init_from": "{base}", "optimizer.weight_decay": 0.0},
    "prune": {"model.init_from": "{base}"},
    "distil.losses": {"distil.teacher": "{base}"},
}
"""Keys that must stand next to the one that chooses."""
