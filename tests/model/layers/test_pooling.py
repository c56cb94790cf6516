"""Vectors and scores of rows against loops over the tokens of each row."""

import math

import pytest
import torch
from torch.nn import functional as F

from clozeline.errors import BatchError
from clozeline.model.compilation.host_shapes import add_host_shapes
from clozeline.model.configuration.head import ClassifierOptions
from clozeline.model.layers.pooling import Classifier, ScalarMix, pool
from tests.model.small_models import small_config

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
    hidden = drawn()
    lengths = torch.tensor(LENGTHS)
    left = 7 - lengths if side == "left" else torch.zeros(4, dtype=torch.int64)
    tensors = {"lengths": lengths} | ({"left_padding": left} if side == "left" else {})
    places = torch.arange(7) - left[:, None]
    outside = (places < 0) | (places >= lengths[:, None])
    # padding has no part
    found = pool(kind, hidden.masked_fill(outside[..., None], float("nan")), tensors)
    for row in range(4):
        tokens = list(hidden[row, left[row] : left[row] + lengths[row]])
        assert torch.allclose(found[row], slow(kind, tokens), atol=1e-6), row


@pytest.mark.parametrize("kind", [*POOLS, "decoder_last"])
def test_settled_lengths_are_those_of_full_rows(kind):
    batch = {
        "input_ids": torch.zeros(4, 7, dtype=torch.int64),
        "lengths": torch.full((4,), 7),
    }
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
    hidden = drawn(9)
    lengths = torch.tensor(LENGTHS)
    tensors = {"input_ids": torch.zeros(4, 7), "lengths": lengths, "left_padding": 7 - lengths}
    found = pool("decoder_last", hidden, tensors)
    for row in range(4):
        assert torch.equal(found[row], hidden[row, LENGTHS[row] - 1])
    with pytest.raises(BatchError, match="expected the row of the encoder, 7 positions, got 6"):
        pool("decoder_last", drawn(6), tensors)


@pytest.mark.parametrize("side", ["right", "left"])
def test_a_pair_is_the_means_of_its_segments_their_distance_and_product(side):
    """Rows of two tokens before the second segment.

    The row of one token has none, and padding is no number.
    """
    lengths = torch.tensor(LENGTHS)
    left = 7 - lengths if side == "left" else torch.zeros(4, dtype=torch.int64)
    places = torch.arange(7) - left[:, None]
    inside = (places >= 0) & (places < lengths[:, None])
    hidden = drawn().masked_fill(~inside[..., None], float("nan"))
    tensors = {
        "lengths": lengths,
        "left_padding": left,
        "type_ids": ((places >= 2) & inside).long(),
    }

    found = pool("pair", hidden, tensors)

    for row in range(4):
        tokens = list(hidden[row][inside[row]])
        first, second = (
            sum(part, torch.zeros(5)) / max(1, len(part)) for part in (tokens[:2], tokens[2:])
        )

        assert torch.allclose(
            found[row],
            torch.cat(
                [
                    first,
                    second,
                    (first - second).abs(),
                    first * second,
                ]
            ),
            atol=1e-6,
        )

    del tensors["type_ids"]
    with pytest.raises(BatchError, match="pool pair reads two segments"):
        pool("pair", hidden, tensors)


def made_classifier(seed=0, **options):
    torch.manual_seed(seed)
    module = Classifier(small_config("encoder"), ClassifierOptions(**options), 3)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return module.eval()


def test_both_dropouts_are_where_the_formula_has_them():
    """One mask on the vector, one on the hidden states, in this order."""
    module = made_classifier(hidden="tanh", input_dropout=0.5, dropout=0.25).train()
    states = torch.randn(4, 24)
    weights = dict(module.named_parameters())
    torch.manual_seed(7)
    found = module(states)
    torch.manual_seed(7)
    x = torch.tanh(F.dropout(states, 0.5) @ weights["dense.weight"].T + weights["dense.bias"])
    expected = F.dropout(x, 0.25) @ weights["out.weight"].T + weights["out.bias"]

    assert torch.allclose(found, expected, atol=1e-6)


def test_dropout_is_that_of_the_model_unless_given():
    config = small_config("encoder", dropout={"hidden": 0.3})
    assert Classifier(config, ClassifierOptions(), 3).dropout.p == 0.3
    assert Classifier(config, ClassifierOptions(dropout=0.0), 3).dropout.p == 0.0


def test_layers_are_mixed_by_the_softmax_of_their_weights():
    mix = ScalarMix(2)
    states = torch.rand(2, 1, 3, 4)
    mix.weights.data = torch.tensor([0.0, math.log(3)])
    mix.gain.data = torch.tensor([2.0])
    torch.testing.assert_close(mix(list(states)), 2 * (states[0] / 4 + 3 * states[1] / 4))
