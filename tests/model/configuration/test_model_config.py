"""Configurations that contradict themselves are refused in words."""

import json

import pytest
from pydantic import TypeAdapter, ValidationError

from clozeline.configuration.described_keys import describe
from clozeline.errors import ConfigurationError
from clozeline.model.build import build_model
from clozeline.model.configuration.layer import ConnectorConfig, ShareConfig
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.position import PositionConfig
from clozeline.model.registries import FAMILIES
from tests.model.small_models import small_config
from tests.temporary_module import temporary_module

OPTIONS = [FAMILIES.load_class(name).Options for name in FAMILIES.available()]
UNIVERSAL = ShareConfig(groups=1, universal=True)
FAMILY = """
    from clozeline.configuration.config import config_class
    from clozeline.model.configuration.model_config import ModelConfig
    from clozeline.model.families.encoder import Encoder


    class WithOptions(Encoder):
        @config_class
        class Options(ModelConfig):
            sizes: tuple[int, ...] = ()
"""


def disentangled(kind="none", **chosen):
    return {"position": {"kind": kind, "disentangled": chosen}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attention_heads": 5}, "dim 24 is not a multiple of 5 heads"),
        ({"kv_heads": 3}, "divisor of attention_heads 4, got 3"),
        ({"position": PositionConfig(kind="rope"), "head_dim": 5}, "even, got 5"),
        (
            {"position": PositionConfig(kind="sinusoidal"), "emb_dim": 7},
            "even embedding width, got 7",
        ),
        ({"family": "encodr"}, "did you mean 'encoder'"),
        ({"heads": {"masked": 1.0}}, "did you mean 'masked_lm'"),
        ({"heads": {}}, "or several, got none"),
        (
            {"heads": {"token": {"normalize": "row"}}},
            "heads.token.normalize: the head token does not have this key",
        ),
        ({"heads": {"sentence": {"group_size": 4}}}, "sentence has weight, transform"),
        ({"decoder_layers": 2}, "only an encoder_decoder"),
        (
            {"local": {"window": 2, "global_every": 3, "theta": 10.0}},
            "local.theta: only rotary positions read it",
        ),
        (
            {"local": {"window": 2}},
            "set either global_every or layer_types, which select the local layers; got neither",
        ),
        ({"first_norm": False}, "first_norm: only norm_place 'pre' and 'both'"),
        ({"parallel": "two_norms"}, "parallel: expected norm_place pre with first_norm"),
        (
            {"position": PositionConfig(kind="rope", partial_rotary_factor=0.6)},
            "expected 2 or another even number",
        ),
        (
            {"position": PositionConfig(kind="rope", nope_layers=(9,))},
            "nope_layers: expected layers from 0 to",
        ),
        (
            disentangled() | {"attn_logit_softcapping": 5.0},
            "attn_logit_softcapping: disentangled attention does not",
        ),
        (disentangled() | {"qk_norm": "head"}, "qk_norm: disentangled attention does not read it"),
        (
            {
                "position": {
                    "kind": "rope",
                    "scaling": {"kind": "dynamic", "factor": 2.0, "original_maximum": 8},
                },
                "head_dim": 2,
            },
            "dynamic needs head_dim 4 or more, got 2",
        ),
        (
            disentangled(position_to_content=False, content_to_position=False),
            "set content_to_position, position_to_content, or both",
        ),
        (disentangled(buckets=8, max_distance=5), "max_distance: expected 6 or more, got 5"),
        (disentangled(convolution=4), "an odd number of tokens, got 4"),
        (
            disentangled(convolution=3, mask_decoder=2) | {"layers": 1},
            "each need an unshared layer",
        ),
        (disentangled(mask_decoder=2) | {"share": {"groups": 1}}, "an unshared layer"),
        (disentangled(mask_decoder=2) | {"norm_place": "pre"}, "norm_place post"),
        (
            disentangled() | {"scale_by_depth": True},
            "scale_by_depth: disentangled attention does not read it",
        ),
        (
            {"init": {"scheme": "t5", "embedding_std": 0.1}},
            "embedding_std: has no effect with scheme 't5'",
        ),
        (
            {"init": {"scheme": "t5", "scale_residual": True}},
            "scale_residual: has no effect with scheme 't5'",
        ),
        ({"share": {"group_layers": 2}}, "group_layers: has no effect without groups"),
        (
            {"heads": {"similarity": {"negatives": "none", "margin": 0.1}}},
            "margin: has no effect with negatives",
        ),
        (
            {"heads": {"regression": {"range": [0.0, 5.0]}}},
            "range: has no effect without output sigmoid",
        ),
        (disentangled(kind="rope"), "disentangled: has no effect with kind 'rope'"),
        (disentangled() | {"family": "decoder"}, "expected an encoder"),
        (disentangled() | {"kv_heads": 2}, "as many kv_heads as attention_heads"),
        ({"out_dim": 7}, "tied to embeddings of width 24 cannot read 7"),
        ({"share": ShareConfig(groups=3)}, "share.groups: expected at most 2, got 3"),
        (
            {"share": ShareConfig(group_layers=2, groups=2)},
            "share.groups: expected at most 1, got 2",
        ),
        ({"share": ShareConfig(universal=True)}, "expected share.groups 1"),
        (
            {"share": ShareConfig(groups=1, group_layers=2, universal=True)},
            "group_layers 1, one layer",
        ),
        ({"share": UNIVERSAL, "family": "xlnet"}, "got xlnet; remove the key"),
        (
            {"share": UNIVERSAL, "position": PositionConfig(kind="sinusoidal"), "emb_dim": 8},
            "dim 24; remove emb_dim",
        ),
        ({"share": ShareConfig(groups=1, group_layers=3)}, "a divisor of the 2 layers, got 3"),
        (
            {"share": ShareConfig(groups=1), "scale_by_depth": True},
            "a shared layer is used at several depths",
        ),
        ({"family": "decoder", "type_vocab_size": 0, "languages": 2}, "only an encoder reads them"),
        (
            {"share": ShareConfig(stacks=True)},
            "an encoder_decoder whose stacks have the same number of layers",
        ),
    ],
)
def test_contradictions_are_named(changes, message):
    with pytest.raises(ValidationError) as caught:
        small_config("encoder", **changes)
    assert message in str(caught.value)


def test_unknown_keys_are_errors():
    with pytest.raises(ValidationError, match="width"):
        TypeAdapter(ModelConfig).validate_python({"family": "encoder", "width": 3})


@pytest.mark.parametrize("strict", [True, False])
def test_a_family_has_keys_of_its_own(tmp_path, strict):
    """Read from JSON or YAML, checked as strictly as the shared ones, and written again."""
    plain = TypeAdapter(ModelConfig).dump_python(small_config("encoder"), mode="json")

    with temporary_module("clozeline.model.families", "with_options", FAMILY, tmp_path):
        given = json.dumps(plain | {"family": "with_options", "sizes": [3, 4]})
        config = TypeAdapter(ModelConfig).validate_json(given, strict=strict)

        assert config.sizes == (3, 4)
        assert TypeAdapter(ModelConfig).validate_python(json.loads(given)) == config
        assert json.dumps(TypeAdapter(type(config)).dump_python(config, mode="json")) == given

        for wrong in (
            {"sizes": ["3"]},
            {"size": [3]},
            {"attention_heads": 5},
        ):
            with pytest.raises(ValidationError, match=next(iter(wrong))):
                TypeAdapter(ModelConfig).validate_python(json.loads(given) | wrong)

    with pytest.raises(ValidationError, match="sizes"):
        TypeAdapter(ModelConfig).validate_python(plain | {"sizes": [3]})


@pytest.mark.parametrize("schema", [ModelConfig, *OPTIONS])
def test_every_field_is_described(schema):
    assert all(text for *_, text in describe(schema))


def test_special_ids_must_lie_in_the_vocabulary():
    with pytest.raises(ConfigurationError, match="'mask': 37"):
        build_model(small_config("encoder"), 37, {"pad": 0, "mask": 37})


def test_a_decoder_may_have_sizes_of_its_own():
    config = small_config(
        "encoder_decoder", decoder_attention_heads=2, decoder_ffn_dim=7, head_dim=None
    )

    assert (config.decoder.layers, config.decoder.attention_heads, config.decoder.ffn_dim) == (
        3,
        2,
        7,
    )
    assert config.decoder.head_width == 12

    alike = small_config("encoder_decoder").decoder

    assert (alike.attention_heads, alike.ffn_dim) == (4, 40)

    with pytest.raises(
        ValidationError, match="decoder_attention_heads: dim 24 is not a multiple of 5 heads"
    ):
        small_config("encoder_decoder", decoder_attention_heads=5, head_dim=None)

    with pytest.raises(
        ValidationError, match="kv_heads: expected a divisor of decoder_attention_heads 3, got 2"
    ):
        small_config("encoder_decoder", decoder_attention_heads=3, kv_heads=2)


def test_a_decoder_of_another_width_needs_a_connector():
    narrow = small_config(
        "encoder_decoder", decoder_dim=12, connector=ConnectorConfig(), head_dim=None
    ).decoder

    assert (narrow.dim, narrow.embedding_width, narrow.head_width) == (12, 24, 3)

    with pytest.raises(
        ValidationError,
        match="decoder_dim: a decoder of width 12 cannot attend to states of width 24",
    ):
        small_config("encoder_decoder", decoder_dim=12)

    alike = {"decoder_dim": 24, "decoder_layers": 2, "share": ShareConfig(stacks=True)}

    with pytest.raises(
        ValidationError, match=r"share.stacks: both stacks have one size; remove decoder_dim"
    ):
        small_config("encoder_decoder", **alike)


def test_local_layers_are_those_of_a_period_or_a_list():
    config = small_config("encoder", layers=7, local={"window": 2, "global_every": 3})

    assert [config.is_local(layer) for layer in range(7)] == [
        False,
        True,
        True,
        False,
        True,
        True,
        False,
    ]
    assert not small_config("encoder").is_local(1)

    kinds = ["sliding_attention", "full_attention", "sliding_attention"]
    config = small_config("encoder", layers=3, local={"window": 2, "layer_types": kinds})

    assert [config.is_local(layer) for layer in range(3)] == [True, False, True]

    with pytest.raises(
        ValidationError, match=r"local\.layer_types: expected a type for each of the 2 layers"
    ):
        small_config(
            "encoder_decoder", layers=3, decoder_layers=2, local={"window": 2, "layer_types": kinds}
        )
