from clozeline.model.configuration.layer import BiasConfig
from clozeline.model.configuration.position import PositionConfig

SMALL = {
    "norm": "rms",
    "activation": "silu",
    "gated": True,
    "kv_heads": 2,
    "bias": BiasConfig(qkv=False, out=False, ffn=False),
    "position": PositionConfig(kind="rope"),
    "heads": {"lm": 1.0},
}
