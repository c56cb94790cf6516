import torch

from clozeline.model.checkpoints import map_of_type
from clozeline.model.checkpoints._conversion.tensor_layouts import parameter_shapes, their_shapes, to_ours, to_theirs
from clozeline.model.configuration.position import PositionConfig
from tests.model.small_models import small_config

CONFIG = small_config(
    "decoder", norm="layer", activation="gelu_tanh", gated=False, kv_heads=4, position=PositionConfig(maximum=9),
    bias={"qkv": True, "out": True, "ffn": True},
)  # fmt: skip


def test_fused_and_transposed_by_hand():
    """The one [in, out] matrix of GPT-2 holds queries, keys and values side by side."""
    key_map, shapes = map_of_type("gpt2"), parameter_shapes(CONFIG, 37)
    ours = {name: torch.randn(shape) for name, shape in shapes.items()}
    theirs = to_theirs(key_map, CONFIG, ours)
    at = "family.stack.layers.1.attention.body"
    for part, name in enumerate(("query", "key", "value")):
        columns = theirs["transformer.h.1.attn.c_attn.weight"][:, 24 * part : 24 * part + 24]
        assert torch.equal(columns, ours[f"{at}.{name}.weight"].T)
        biases = theirs["transformer.h.1.attn.c_attn.bias"][24 * part : 24 * part + 24]
        assert torch.equal(biases, ours[f"{at}.{name}.bias"])
    assert {name: list(tensor.shape) for name, tensor in theirs.items()} == their_shapes(key_map, CONFIG, shapes)
    back = to_ours(key_map, CONFIG, theirs, shapes)
    assert back.keys() == ours.keys()
    assert all(torch.equal(back[name], ours[name]) for name in ours)
    assert all(tensor.is_contiguous() for tensor in (*theirs.values(), *back.values()))


def test_fused_parts_of_unequal_size_by_hand():
    """The rows of Phi-3's projection: all queries, then the fewer keys, then the values."""
    config = small_config("decoder", kv_heads=2, head_dim=6)
    key_map, shapes = map_of_type("phi3"), parameter_shapes(config, 37)
    ours = {name: torch.randn(shape) for name, shape in shapes.items()}
    theirs = to_theirs(key_map, config, ours)
    at = "family.stack.layers.1.attention.body"
    expected = torch.cat([ours[f"{at}.{name}.weight"] for name in ("query", "key", "value")])
    assert torch.equal(theirs["model.layers.1.self_attn.qkv_proj.weight"], expected)
    assert expected.shape == (24 + 12 + 12, 24)
    assert {name: list(tensor.shape) for name, tensor in theirs.items()} == their_shapes(key_map, config, shapes)
    back = to_ours(key_map, config, theirs, shapes)
    assert all(torch.equal(back[name], ours[name]) for name in ours)


def test_shapes_take_no_memory():
    shapes = parameter_shapes(small_config("encoder", dim=8192, ffn_dim=2**20, layers=100), 10**6)
    assert sum(shape.numel() for shape in shapes.values()) > 10**12
