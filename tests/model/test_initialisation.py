import pytest
import torch
import xxhash

from model.build import build_model
from model.config import InitConfig, PositionConfig
from tests.model.small_models import FAMILIES, RECURRENT, SPELLINGS, built, small_config


@pytest.mark.parametrize("family", [*FAMILIES, *RECURRENT])
def test_the_seed_decides_the_weights(family):
    first, again, other = built(family, 1).state_dict(), built(family, 1).state_dict(), built(family, 2).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["family.tokens.weight"], other["family.tokens.weight"])


@pytest.mark.parametrize("family", [*FAMILIES, *RECURRENT])
def test_a_weight_depends_on_its_name_and_not_on_what_is_built_beside_it(family):
    """One more layer, and torch's own generator in another state: the others keep their bits."""
    few = build_model(small_config(family, layers=2), 37, {"pad": 0}, SPELLINGS, seed=3).state_dict()
    torch.manual_seed(99)
    torch.rand(5)
    more = build_model(small_config(family, layers=3), 37, {"pad": 0}, SPELLINGS, seed=3).state_dict()
    alike = [name for name in few if few[name].shape == more[name].shape]
    same = [name for name in alike if torch.equal(few[name], more[name])]
    assert len(alike) > len(few) / 2
    assert same == alike


def test_a_weight_is_drawn_from_the_generator_of_its_name():
    network = build_model(small_config("encoder", init=InitConfig(std=0.5)), 37, {"pad": 0}, seed=7)
    for name in ("family.tokens.weight", "family.stack.layers.1.attention.body.key.weight"):
        found = dict(network.named_parameters())[name]
        generator = torch.Generator().manual_seed(xxhash.xxh3_64(f"7 {name}".encode()).intdigest() // 2)
        assert torch.equal(found, 0.5 * torch.randn(found.shape, generator=generator))


def deviations(family, **changes):
    torch.manual_seed(0)
    sizes = {"dim": 256, "ffn_dim": 512, "attention_heads": 4, "kv_heads": None, "layers": 2}
    network = build_model(small_config(family, **(sizes | changes)), 400, {})
    return {name: parameter.std().item() for name, parameter in network.named_parameters()}, network


def test_normal_initialisation():
    found, network = deviations("encoder", emb_norm=True)
    for name, parameter in network.named_parameters():
        if parameter.ndim == 1:
            assert parameter.eq(1.0 if "norm.weight" in name else 0.0).all(), name
        elif parameter.numel() > 10000:
            assert found[name] == pytest.approx(0.02, rel=0.05), name


def test_embedding_tables_may_have_a_deviation_of_their_own():
    init = InitConfig(std=0.02, embedding_std=0.3)
    found, _ = deviations("encoder", init=init, position=PositionConfig(maximum=99), languages=200)
    tables = ("family.tokens", "family.languages", "family.stack.position.table")
    assert [found[f"{name}.weight"] for name in tables] == [pytest.approx(0.3, rel=0.05)] * 3
    assert found["heads.masked_lm.transform.weight"] == pytest.approx(0.02, rel=0.05)


def test_projections_into_the_residual_are_scaled():
    found, _ = deviations("decoder", init=InitConfig(std=0.02, scale_residual=True))
    layer = "family.stack.layers.1"
    assert found[f"{layer}.attention.body.out.weight"] == pytest.approx(0.02 / 4**0.5, rel=0.05)
    assert found[f"{layer}.feed_forward.body.down.weight"] == pytest.approx(0.02 / 4**0.5, rel=0.05)
    assert found[f"{layer}.attention.body.query.weight"] == pytest.approx(0.02, rel=0.05)
    assert found["family.tokens.weight"] == pytest.approx(0.02, rel=0.05)


def test_t5_initialisation():
    position = PositionConfig(kind="t5", buckets=1024, max_distance=2000)
    found, _ = deviations("encoder_decoder", head_dim=32, tied=False, position=position)
    layer = "family.decoder.layers.2"
    for block in ("attention", "cross"):
        assert found[f"{layer}.{block}.body.query.weight"] == pytest.approx((256 * 32) ** -0.5, rel=0.05)
        assert found[f"{layer}.{block}.body.key.weight"] == pytest.approx(256**-0.5, rel=0.05)
        assert found[f"{layer}.{block}.body.value.weight"] == pytest.approx(256**-0.5, rel=0.05)
        assert found[f"{layer}.{block}.body.out.weight"] == pytest.approx(128**-0.5, rel=0.05)
    assert found[f"{layer}.feed_forward.body.up.weight"] == pytest.approx(256**-0.5, rel=0.05)
    assert found[f"{layer}.feed_forward.body.down.weight"] == pytest.approx(512**-0.5, rel=0.05)
    assert found["family.encoder.position.table.weight"] == pytest.approx(256**-0.5, rel=0.05)
    assert found["family.tokens.weight"] == pytest.approx(1.0, rel=0.05)
    assert found["heads.lm.projection.weight"] == pytest.approx(256**-0.5, rel=0.05)


def test_nothing_is_drawn_beyond_the_cutoff():
    init = InitConfig(std=0.02, cutoff=2.0, scale_residual=True)
    found, network = deviations("encoder", init=init, position=PositionConfig(maximum=8))
    truncated = 0.02 * 0.8796  # the deviation of a normal distribution that is cut off at two of its own
    small = truncated / 4**0.5
    layer = "family.stack.layers.1"
    for name, deviation in {
        "family.tokens.weight": truncated,
        f"{layer}.attention.body.query.weight": truncated,
        f"{layer}.attention.body.out.weight": small,
        "heads.masked_lm.transform.weight": small,
    }.items():
        assert found[name] == pytest.approx(deviation, rel=0.03), name
        assert network.get_parameter(name).abs().max() <= 2 * 0.02 * deviation / truncated + 1e-6
