"""Initial weights: functions of seed, name and shape alone, with the moments that the papers
give."""

import re

import pytest
import torch
from pydantic import TypeAdapter
from torch import nn

from clozeline.model.build import Model, build_model
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.sizes import all_sizes, read_size
from clozeline.model.initialization import initial_distributions
from clozeline.model.parameters.initial_values import generator_for
from clozeline.model.registries import FAMILIES
from tests.contracts import contract
from tests.matrices import mark_slow_but
from tests.model.small_models import SPELLINGS, VOCABULARY, small_config


@contract(FAMILIES, "family")
def test_a_weight_depends_on_its_name_and_not_on_what_is_built_beside_it(family):
    """One more layer, and torch's own generator in another state: the others keep their bits."""
    few = build_model(
        small_config(family, layers=2), 37, {"pad": 0}, SPELLINGS, seed=3
    ).state_dict()
    torch.manual_seed(99)
    torch.rand(5)
    more = build_model(
        small_config(family, layers=3), 37, {"pad": 0}, SPELLINGS, seed=3
    ).state_dict()
    alike = [name for name in few if few[name].shape == more[name].shape]
    same = [name for name in alike if torch.equal(few[name], more[name])]

    assert len(alike) > len(few) / 2
    assert same == alike


def deviations(family, **changes):
    torch.manual_seed(0)
    sizes = {"dim": 256, "ffn_dim": 512, "attention_heads": 4, "kv_heads": None, "layers": 2}
    network = build_model(small_config(family, **(sizes | changes)), 400, {})
    return {name: parameter.std().item() for name, parameter in network.named_parameters()}, network


def test_a_gain_of_1_plus_weight_starts_at_a_weight_of_0():
    _, network = deviations("decoder", norm="rms_one", norm_place="both", qk_norm="head")
    norms = {name: parameter for name, parameter in network.named_parameters() if "norm" in name}
    assert len(norms) == 2 * 6 + 1
    assert all(parameter.eq(0).all() for parameter in norms.values())


def test_t5_initialisation_of_a_decoder_of_another_width():
    sizes = {"dim": 64, "decoder_dim": 400, "connector": {}, "tied": False, "head_dim": 32}
    found, _ = deviations("encoder_decoder", **sizes)

    for stack, width in (("encoder", 64), ("decoder", 400)):
        assert found[f"family.{stack}.layers.0.attention.body.key.weight"] == pytest.approx(
            width**-0.5, rel=0.05
        )
        query = found[f"family.{stack}.layers.0.attention.body.query.weight"]
        assert query == pytest.approx((width * 32) ** -0.5, rel=0.05)

    assert found["family.decoder.layers.0.cross.body.key.weight"] == pytest.approx(
        400**-0.5, rel=0.05
    )
    assert found["family.connector.leave.weight"] == pytest.approx(64**-0.5, rel=0.05)
    assert found["heads.lm.projection.weight"] == pytest.approx(400**-0.5, rel=0.05)


SMALL = (2 / (5 * 256)) ** 0.5
"""`small_init` of GPT-NeoX at width 256 (arXiv 1910.05895)."""


@pytest.mark.parametrize(
    ("family", "init", "expected"),
    [
        # GPT-NeoX: the outputs of blocks by `wang_init`, at 2 layers
        (
            "decoder",
            {"std": SMALL, "residual_std": 2 / (2 * 256**0.5)},
            {
                "layers.1.attention.body.out.weight": 1 / 16,
                "layers.1.feed_forward.body.down.weight": 1 / 16,
                "layers.0.attention.body.key.weight": SMALL,
                "layers.0.feed_forward.body.up.weight": SMALL,
                "tokens.weight": SMALL,
            },
        ),
        # LTG-BERT: feed-forward weights by depth
        (
            "encoder",
            {"std": SMALL, "by_depth": True},
            {
                "layers.0.feed_forward.body.up.weight": SMALL * 0.5**0.5,
                "layers.1.feed_forward.body.up.weight": SMALL / 2,
                "layers.1.feed_forward.body.down.weight": SMALL / 2,
                "layers.1.attention.body.out.weight": SMALL,
            },
        ),
        # NeoBERT: uniform up to 0.02
        (
            "encoder",
            {"std": 0.02 / 3**0.5, "uniform": True},
            {"layers.0.attention.body.key.weight": 0.02 / 3**0.5, "tokens.weight": 0.02 / 3**0.5},
        ),
        # T5 of transformers, whose untied head is as the table
        (
            "encoder_decoder",
            {"scheme": "t5", "head_std": 1.0},
            {"heads.lm.projection.weight": 1.0, "family.tokens.weight": 1.0},
        ),
    ],
)
def test_deviations_of_published_schemes(family, init, expected):
    found, network = deviations(family, init=init, tied=False)
    for ending, deviation in expected.items():
        named = [name for name in found if name.endswith(ending)]
        assert named, ending
        for name in named:
            assert found[name] == pytest.approx(deviation, rel=0.05), name

    if init.get("uniform"):
        assert network.family.tokens.weight.abs().max() < 0.02


def test_a_parameter_without_a_law_is_an_error_that_says_what_to_do():
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.gain = nn.Parameter(torch.ones(3))

    with pytest.raises(
        NotImplementedError,
        match=r"Scale: the parameter gain has no distribution .*; declare one in a method `initial_w",
    ):
        initial_distributions(Scale(), small_config("encoder"))


@contract(FAMILIES, "family")
def test_no_value_is_drawn_before_the_initial_ones(family):
    """Those of torch's own modules would be overwritten; only adapters are built with theirs."""
    state = torch.get_rng_state()
    Model(small_config(family), VOCABULARY)
    assert torch.equal(torch.get_rng_state(), state)


def on_meta(config):
    with torch.device("meta"):
        return Model(config, 1024)


def wide_normal(std, tables=None):
    """The deviation of each kind of parameter where all matrices are alike."""
    return lambda name, model: (tables or std) if name.endswith(TABLES) else std


def residual(depth, cut=1.0):
    """GPT-2 (Radford et al. 2019 §2.3): projections into the residual stream by 1 / sqrt(2 x
    layers)."""
    into = (
        "attention.body.out.weight",
        "feed_forward.body.down.weight",
        "masked_lm.transform.weight",
    )

    return lambda name, model: 0.02 * cut * ((2 * depth) ** -0.5 if name.endswith(into) else 1.0)


def t5(name, model):
    """Raffel et al., appendix of the code: fan-in, and queries with the factor that the scores
    lack."""
    config = model.config
    kind = name.rpartition(".body.")[2]
    heads = config.attention_heads * config.head_width
    if name == "family.tokens.weight":
        return 1.0
    by_part = {
        "query.weight": (config.dim * config.head_width) ** -0.5,
        "out.weight": heads**-0.5,
    }
    return by_part.get(kind, config.ffn_dim**-0.5 if kind == "down.weight" else config.dim**-0.5)


def elmo(name, model):
    config = model.config
    if ".highways." in name:
        return sum(count for _, count in config.filters) ** -0.5
    if ".convolutions." in name:
        return 0.05 / 3**0.5
    cells = name.endswith((".input", ".recurrent", ".projection")) and ".words." not in name
    return config.cell_dim**-0.5 / 3**0.5 if cells else 0.044


def awd_lstm(name, model):
    """Uniform up to 1 / sqrt(width) of the layer; the table as if uniform up to 0.1."""
    if name.endswith((".input", ".recurrent")):
        return model.get_parameter(name.rpartition(".")[0] + ".recurrent").shape[1] ** -0.5 / 3**0.5
    return 0.1 / 3**0.5


def vector(name):
    """The value in each quarter of a vector: open forget gates, closed highways, gains of 1, biases
    of 0."""
    if name.endswith(".weight"):
        return [1.0, 1.0, 1.0, 1.0]
    if ".highways." in name:
        return [0.0, 0.0, -2.0, -2.0]
    return [0.0, 1.0, 0.0, 0.0] if re.search(r"layers\.\d+\.bias$", name) else [0.0, 0.0, 0.0, 0.0]


DRAWN_VECTORS = ("content_bias", "position_bias", "segment_bias", "unknown")
TABLES = ("tokens.weight", "position.table.weight", "types.weight", "languages.weight")
CUT = 0.8796  # the deviation of a normal distribution that is cut off at two of its own
EXPECTED = {
    **dict.fromkeys((name for name in all_sizes() if name.startswith("t5_")), t5),
    **{
        f"gpt2_{size}": residual(layers)
        for size, layers in (("small", 12), ("medium", 24), ("large", 36), ("xl", 48))
    },
    **{
        f"gpt3_{size}": residual(layers)
        for size, layers in (("125m", 12), ("350m", 24), ("760m", 24))
    },
    **{
        f"gpt3_{size}": residual(layers)
        for size, layers in (("2_7b", 32), ("6_7b", 32), ("175b", 96))
    },
    "modernbert_base": residual(22, CUT),
    "modernbert_large": residual(28, CUT),
    "xlm_en_2048": wide_normal(0.02, 2048**-0.5),
    "xlm_xnli15_1024": wide_normal(0.02, 1024**-0.5),
    "xlm_100_1280": wide_normal(0.02, 1280**-0.5),
    "mass": wide_normal(0.02, 1024**-0.5),
    "elmo": elmo,
    "awd_lstm": awd_lstm,
}
"""Deviations that papers give; the other presets have 0.02 for every matrix and table (arXiv
1810.04805)."""


NAMES = sorted(all_sizes())


@pytest.mark.parametrize(
    "name",
    mark_slow_but([name for name in NAMES if name in EXPECTED or name.endswith("base")], NAMES),
)
def test_moments_of_presets(name):
    """Each law of a preset, drawn into 6,144 places: mean, deviation, and for vectors the
    constant."""
    config = TypeAdapter(ModelConfig).validate_python(read_size(name))
    model = on_meta(config)
    expected = EXPECTED.get(name, wide_normal(0.02))

    for parameter, law in initial_distributions(model, config).items():
        values = torch.empty(6144)
        law(values, generator_for(0, parameter))

        if model.get_parameter(parameter).ndim == 1 and not parameter.endswith(DRAWN_VECTORS):
            assert values.view(4, -1)[:, [0, -1]].tolist() == [
                [value] * 2 for value in vector(parameter)
            ], parameter
            continue

        assert values.std().item() == pytest.approx(expected(parameter, model), rel=0.05), parameter
        assert abs(values.mean().item()) < 5 * expected(parameter, model) / 6144**0.5, parameter
