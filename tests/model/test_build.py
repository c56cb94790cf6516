"""Built models: ties, initial weights, dropout, precision."""

import copy
import doctest

import pytest
import torch

import model.flops
import model.layers.vocabulary
from model.build import build_model
from model.config import DropoutConfig, InitConfig, PositionConfig
from model.errors import BatchError
from tests.model.small_models import FAMILIES, VOCABULARY, batch_for, small_config

DROPOUT = DropoutConfig(embedding=0.1, attention=0.1, hidden=0.1, activation=0.1, output=0.1)


def built(family, seed=0, **changes):
    torch.manual_seed(seed)
    return build_model(small_config(family, **changes), VOCABULARY, {"pad": 0})


def total(network, tensors):
    (loss,) = network(tensors).values()
    return loss.total


def projection(network):
    (head,) = network.heads.values()
    return head.projection


@pytest.mark.parametrize("family", FAMILIES)
def test_tied_weights_stay_tied(family):
    network = built(family)
    clone = copy.deepcopy(network).to(torch.float64)
    clone.load_state_dict(network.state_dict())
    for tied in (network, clone):
        assert projection(tied).weight is tied.family.tokens.weight
        total(tied, batch_for(family)).backward()
        torch.optim.SGD(tied.parameters(), lr=0.1).step()
        assert projection(tied).weight.data_ptr() == tied.family.tokens.weight.data_ptr()
    assert len({id(p) for p in network.parameters()}) == len(dict(network.named_parameters()))


@pytest.mark.parametrize("family", FAMILIES)
def test_untied_weights_are_apart(family):
    network = built(family, tied=False)
    assert projection(network).weight is not network.family.tokens.weight
    assert not torch.equal(projection(network).weight, network.family.tokens.weight)
    assert network.num_parameters() - built(family).num_parameters() == VOCABULARY * 24


def test_narrow_embeddings_are_widened():
    network = built("encoder", emb_dim=10)
    assert network.family.tokens.weight.shape == (VOCABULARY, 10)
    assert total(network, batch_for("encoder")).isfinite()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_seed_decides_the_weights(family):
    first, again, other = built(family, 1).state_dict(), built(family, 1).state_dict(), built(family, 2).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["family.tokens.weight"], other["family.tokens.weight"])


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


@pytest.mark.parametrize("family", FAMILIES)
def test_dropout_follows_the_seed_and_stops_in_evaluation(family):
    network, tensors = built(family, dropout=DROPOUT), batch_for(family)
    losses = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        losses.append(total(network, tensors).item())
    assert losses[0] == losses[1] != losses[2]
    network.eval()
    assert total(network, tensors).item() == total(network, tensors).item()


@pytest.mark.parametrize("place", ["embedding", "attention", "hidden", "activation", "output"])
def test_each_dropout_acts_alone(place):
    network, tensors = built("encoder_decoder", dropout=DropoutConfig(**{place: 0.5})), batch_for("encoder_decoder")
    assert total(network, tensors).item() != total(network, tensors).item()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("autocast", [False, True], ids=["bf16 weights", "autocast"])
def test_bf16_is_near_fp32(family, autocast):
    network, tensors = built(family).eval(), batch_for(family)
    expected = total(network, tensors).item()
    if autocast:
        with torch.autocast("cpu", torch.bfloat16):
            found = total(network, tensors)
    else:
        found = total(network.bfloat16(), tensors)
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(expected, rel=3e-2)
    found.backward()
    assert all(parameter.grad.isfinite().all() for parameter in network.parameters())


def test_a_row_longer_than_the_position_table_is_refused():
    network = built("encoder", position=PositionConfig(maximum=8))
    with pytest.raises(BatchError, match=r"raise model\.position\.maximum"):
        network(batch_for("encoder"))


@pytest.mark.parametrize("kind", ["sinusoidal", "none", "learned"])
@pytest.mark.parametrize("family", FAMILIES)
def test_kinds_of_positions_are_interchangeable(family, kind):
    network = built(family, position=PositionConfig(kind=kind))
    tensors = batch_for(family)
    moved = tensors | {name: value + 1 for name, value in tensors.items() if name.endswith("position_ids")}
    assert (total(network, tensors).item() == total(network, moved).item()) == (kind == "none")


@pytest.mark.parametrize("family", FAMILIES)
def test_an_optimizer_learns_the_batch(family):
    network, tensors = built(family), batch_for(family)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
    start = total(network, tensors).item()
    for _ in range(40):
        optimizer.zero_grad()
        total(network, tensors).backward()
        optimizer.step()
    assert total(network, tensors).item() < 0.2 * start


def test_examples_in_docstrings():
    assert doctest.testmod(model.layers.vocabulary).failed == 0
    assert doctest.testmod(model.flops).failed == 0
