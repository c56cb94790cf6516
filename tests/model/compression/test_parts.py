import pytest

from clozeline.errors import ConfigurationError
from clozeline.model.compression._parts import change_config, cut_checkpoint, refuse_shared_layers, split_name
from tests.model.compression.compressed_models import odd_checkpoint


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("family.stack.layers.12.attention.norm.bias", ("family.stack.layers.", 12, "attention.norm.bias")),
        ("family.decoder.layers.0.cross.body.key.bias", ("family.decoder.layers.", 0, "cross.body.key.bias")),
        ("family.layers.3.norm.weight", ("family.layers.", 3, "norm.weight")),
        ("family.tokens.weight", None),
        ("heads.masked_lm.layers.1.weight", None),
    ],
)
def test_the_layer_of_a_parameter_is_in_its_name(name, parts):
    assert split_name(name) == parts


def test_a_configuration_changes_and_loses_keys():
    config = odd_checkpoint(head_dim=4).config
    assert change_config(config, "heads", layers=2, head_dim=None).head_width == 5
    assert config.layers == 5
    with pytest.raises(ConfigurationError, match="heads: model: attention_heads: 2 heads do not divide"):
        change_config(odd_checkpoint().config, "heads", attention_heads=2)


def test_a_tensor_of_another_shape_is_refused():
    dense = odd_checkpoint()
    with pytest.raises(ConfigurationError, match=r"expected shape \[7, 15\]"):
        cut_checkpoint(dense, change_config(dense.config, "rows", ffn_dim=7), lambda name: dense.tensors[name])


def test_layers_with_their_own_weights_pass():
    refuse_shared_layers(odd_checkpoint().config, "rows")
