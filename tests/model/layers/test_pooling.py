"""Vectors and scores of rows against loops over the tokens of each row."""

import math

import pytest
import torch
from torch.nn import functional as F

from clozeline.errors import BatchError
from clozeline.model.compilation.host_shapes import add_host_shapes
from clozeline.model.configuration.head import HeadConfig
from clozeline.model.layers.pooling import Classifier, Pooler, ScalarMix, pool
from tests.model.small_models import batch_for, built, changed, small_config, states

POOLS = ("cls", "mean", "max", "last")
LENGTHS = [7, 1, 4, 6]


def drawn(columns=7):
    return torch.randn(4, columns, 5, generator=torch.Generator().manual_seed(2))


def slow(kind, tokens):
    """The vector of one row from the list of its tokens' states."""
    match kind:
        case "cls":
            return tokens[0]
        case "last":
            return tokens[-1]
        case "mean":
            return sum(tokens) / len(tokens)
        case "max":
            return torch.tensor([max(float(state[at]) for state in tokens) for at in range(5)])


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("kind", POOLS)
def test_each_pool_is_that_of_the_tokens(kind, side):
    hidden, lengths = drawn(), torch.tensor(LENGTHS)
    left = 7 - lengths if side == "left" else torch.zeros(4, dtype=torch.int64)
    tensors = {"lengths": lengths} | ({"left_padding": left} if side == "left" else {})
    found = pool(kind, hidden, tensors)
    for row in range(4):
        tokens = list(hidden[row, left[row] : left[row] + lengths[row]])
        assert torch.allclose(found[row], slow(kind, tokens), atol=1e-6), row


@pytest.mark.parametrize("kind", POOLS)
def test_padding_has_no_part(kind):
    """Not even where it is no number."""
    hidden, tensors = drawn(), {"lengths": torch.tensor(LENGTHS)}
    expected = pool(kind, hidden, tensors)
    outside = torch.arange(7) >= tensors["lengths"][:, None]
    for value in (9.0, float("nan"), float("inf")):
        assert torch.equal(pool(kind, hidden.masked_fill(outside[..., None], value), tensors), expected)


@pytest.mark.parametrize("kind", POOLS)
def test_rows_change_places_with_their_vectors(kind):
    hidden, lengths, order = drawn(), torch.tensor(LENGTHS), torch.tensor([2, 0, 3, 1])
    expected = pool(kind, hidden, {"lengths": lengths})[order]
    assert torch.equal(pool(kind, hidden[order], {"lengths": lengths[order]}), expected)


@pytest.mark.parametrize("kind", [*POOLS, "decoder_last"])
def test_settled_lengths_are_those_of_full_rows(kind):
    batch = {"input_ids": torch.zeros(4, 7, dtype=torch.int64), "lengths": torch.full((4,), 7)}
    settled = add_host_shapes(batch, None)
    assert settled["lengths"].ndim == 0
    assert torch.equal(pool(kind, drawn(), settled), pool(kind, drawn(), batch))


@pytest.mark.parametrize("kind", POOLS)
def test_a_row_without_tokens_is_read_as_one(kind):
    """Filler rows have no loss; their vectors must be numbers, for NaN times 0 is NaN."""
    hidden = drawn()
    found = pool(kind, hidden, {"lengths": torch.tensor([0, 2, 7, 7])})
    assert torch.equal(found[0], hidden[0, 0])


def test_the_decoders_row_is_the_encoders_and_padded_on_the_right():
    hidden, lengths = drawn(9), torch.tensor(LENGTHS)
    tensors = {"input_ids": torch.zeros(4, 7), "lengths": lengths, "left_padding": 7 - lengths}
    found = pool("decoder_last", hidden, tensors)
    for row in range(4):
        assert torch.equal(found[row], hidden[row, LENGTHS[row] - 1])


def test_a_shorter_row_of_the_decoder_is_refused():
    tensors = {"input_ids": torch.zeros(4, 8), "lengths": torch.tensor(LENGTHS)}
    with pytest.raises(BatchError, match="expected the row of the encoder, 8 positions, got 7"):
        pool("decoder_last", drawn(), tensors)


@pytest.mark.parametrize(("family", "kinds"), [("encoder", POOLS), ("decoder", ("mean", "max", "last"))])
def test_the_embedding_of_a_padding_token_does_not_matter(family, kinds):
    network, tensors = built(family).eval(), batch_for(family)
    row = next(row for row, length in enumerate(tensors["lengths"]) if length < 11)
    other = changed(tensors, "input_ids", row, 10)
    for kind in kinds:
        vectors = [pool(kind, states(network, batch), batch) for batch in (tensors, other)]
        assert torch.equal(*vectors), kind


@pytest.mark.parametrize("side", ["right", "left"])
def test_a_pair_is_the_means_of_its_segments_their_distance_and_product(side):
    """Rows of two tokens before the second segment; the row of one token has none, and padding is no number."""
    lengths = torch.tensor(LENGTHS)
    left = 7 - lengths if side == "left" else torch.zeros(4, dtype=torch.int64)
    places = torch.arange(7) - left[:, None]
    inside = (places >= 0) & (places < lengths[:, None])
    hidden = drawn().masked_fill(~inside[..., None], float("nan"))
    tensors = {"lengths": lengths, "left_padding": left, "type_ids": ((places >= 2) & inside).long()}
    found = pool("pair", hidden, tensors)
    for row in range(4):
        tokens = list(hidden[row][inside[row]])
        first, second = (sum(part, torch.zeros(5)) / max(1, len(part)) for part in (tokens[:2], tokens[2:]))
        assert torch.allclose(found[row], torch.cat([first, second, (first - second).abs(), first * second]), atol=1e-6)


def test_a_pair_without_segments_is_refused():
    with pytest.raises(BatchError, match="pool pair reads two segments"):
        pool("pair", drawn(), {"lengths": torch.tensor(LENGTHS)})


def test_the_first_place_by_hand():
    pooler, hidden = Pooler(3), torch.randn(2, 4, 3)
    weight, bias = pooler.dense.weight.tolist(), pooler.dense.bias.tolist()
    for row in range(2):
        first = hidden[row, 0].tolist()
        wanted = [
            math.tanh(sum(w * x for w, x in zip(of, first, strict=True)) + bias[i]) for i, of in enumerate(weight)
        ]
        assert torch.allclose(pooler(hidden)[row], torch.tensor(wanted), atol=1e-6)


def test_without_a_transform_the_state_itself():
    pooler, hidden = Pooler(3, transform=False), torch.randn(2, 4, 3)
    assert list(pooler.parameters()) == []
    assert torch.equal(pooler(hidden), hidden[:, 0])


def given():
    torch.manual_seed(0)
    return [torch.randn(2, 5, 3) for _ in range(3)]


def test_at_first_it_is_the_mean():
    states = given()
    assert torch.allclose(ScalarMix(3)(states), sum(states) / 3, atol=1e-6)


@pytest.mark.parametrize("layer", range(3))
def test_one_weight_chooses_a_layer(layer):
    states = given()
    mix = ScalarMix(3)
    mix.weights.data[layer] = 1e4
    mix.gain.data[0] = 2.0
    assert torch.equal(mix(states), 2 * states[layer])




def test_weights_and_gain_learn_and_states_do_not():
    states = given()
    mix = ScalarMix(3)
    mix(states).square().sum().backward()
    assert mix.weights.grad.abs().gt(0).all()
    assert mix.gain.grad.abs().gt(0).all()


def made_classifier(seed=0, **options):
    torch.manual_seed(seed)
    module = Classifier(small_config("encoder"), HeadConfig(**options), 3)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return module.eval()


def scores_by_hand(weights, states, activation, *, norm):
    x = states
    if activation is not None:
        x = activation(x @ weights["dense.weight"].T + weights["dense.bias"])
    if norm:
        spread = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()
        x = spread * weights["norm.weight"] + weights["norm.bias"]
    return x @ weights["out.weight"].T + weights.get("out.bias", 0.0)


@pytest.mark.parametrize(
    ("options", "activation"),
    [
        ({}, None),
        ({"bias": False}, None),
        ({"hidden": "tanh"}, lambda x: (x.exp() - (-x).exp()) / (x.exp() + (-x).exp())),
        ({"hidden": "gelu"}, lambda x: x * 0.5 * (1 + torch.erf(x / 2**0.5))),
        ({"hidden": "relu", "hidden_norm": True}, lambda x: x.clamp(min=0)),
        ({"hidden": "relu", "hidden_norm": True, "hidden_dim": 7}, lambda x: x.clamp(min=0)),
        ({"hidden": "identity", "hidden_dim": 2}, lambda x: x),
    ],
    ids=["plain", "without bias", "tanh", "gelu", "norm", "narrow norm", "two maps"],
)
def test_scores_are_those_of_the_formula(options, activation):
    module, states = made_classifier(**options), torch.randn(5, 24, generator=torch.Generator().manual_seed(1))
    weights = dict(module.named_parameters())
    expected = scores_by_hand(weights, states, activation, norm=options.get("hidden_norm", False))
    assert torch.allclose(module(states), expected, atol=1e-5)


def test_a_plain_one_has_only_the_parameters_of_the_classes():
    count = sum(parameter.numel() for parameter in made_classifier().parameters())
    assert count == 24 * 3 + 3


def test_both_dropouts_are_where_the_formula_has_them():
    """One mask on the vector, one on the hidden states, in this order."""
    module, states = made_classifier(hidden="tanh", input_dropout=0.5, dropout=0.25).train(), torch.randn(4, 24)
    weights = dict(module.named_parameters())
    torch.manual_seed(7)
    found = module(states)
    torch.manual_seed(7)
    x = torch.tanh(F.dropout(states, 0.5) @ weights["dense.weight"].T + weights["dense.bias"])
    expected = F.dropout(x, 0.25) @ weights["out.weight"].T + weights["out.bias"]
    assert torch.allclose(found, expected, atol=1e-6)


def test_dropout_is_that_of_the_model_unless_given():
    config = small_config("encoder", dropout={"hidden": 0.3})
    assert Classifier(config, HeadConfig(), 3).dropout.p == 0.3
    assert Classifier(config, HeadConfig(dropout=0.0), 3).dropout.p == 0.0
