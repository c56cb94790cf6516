"""ELMo: what each half of a state knows, its stack against torch's, and its characters."""

import pytest
import torch
from pydantic import ValidationError

from clozeline.model.build import build_model
from clozeline.model.layers.characters import character_ids
from tests.model.small_models import SPELLINGS, VOCABULARY, batch_for, built, small_config, states
from tests.refusals import refused

SMALL = {
    "dim": 48,
    "layers": 2,
    "cell_dim": 10,
    "max_characters": 7,
    "character_dim": 3,
    "filters": ((1, 4), (3, 5)),
    "highways": 2,
    "heads": {"bidirectional_lm": 1.0},
}
"""The token table is 24 wide, as that of all small families."""


def perturbed(**changes):
    network = built("elmo", **changes)
    torch.manual_seed(5)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return network


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN:UserWarning")
def test_every_layer_is_torchs():
    """Word vectors twice, then each layer with the one before added from the second on.

    One row at a time.
    """
    network = perturbed(layers=3, cell_dim=30, clip=1e9).double()
    tensors = batch_for("elmo", lengths=[11, 6])
    with torch.no_grad():
        found = network.family.layer_states(tensors)

    assert len(found) == 4

    for row, length in enumerate((11, 6)):
        words = network.family.words(
            network.family.characters[tensors["input_ids"][row : row + 1, :length]]
        )
        expected = [[words, words]]

        for number in range(3):
            pair = []

            for side, layers in enumerate(
                (network.family.left.layers, network.family.right.layers)
            ):
                x = expected[-1][side]
                out = (
                    torch_layer(layers[number], x.flip(1)).flip(1)
                    if side
                    else torch_layer(layers[number], x)
                )

                pair.append(out + x if number else out)

            expected.append(pair)

        for state, pair in zip(found, expected, strict=True):
            assert torch.allclose(
                state[row, :length],
                torch.cat(pair, dim=-1)[0],
                atol=1e-10,
            )

    assert torch.equal(found[-1], states(network, tensors))


def torch_layer(layer, x):
    theirs = torch.nn.LSTM(24, 30, batch_first=True, proj_size=24)
    values = (
        layer.input,
        layer.recurrent,
        layer.bias,
        torch.zeros_like(layer.bias),
        layer.projection,
    )
    for parameter, value in zip(theirs.parameters(), values, strict=True):
        parameter.data = value.data
    with torch.no_grad():
        return theirs(x)[0]


def test_words_are_given_by_their_characters_and_their_table_is_the_heads_alone():
    network = perturbed()
    tensors = batch_for("elmo")
    before = states(network, tensors)
    with torch.no_grad():
        network.family.tokens.weight.normal_()

    assert torch.equal(states(network, tensors), before)
    assert network.heads["bidirectional_lm"].projection.weight is network.family.tokens.weight
    assert "family.characters" not in network.state_dict(), "the tokenizer has it"

    characters = character_ids(SPELLINGS, 7, {"pad": 0})[tensors["input_ids"]]

    assert torch.equal(states(network, tensors | {"characters": characters}), before)

    characters[0, 3] = character_ids([b"neu"], 7)[0]

    assert not torch.equal(states(network, tensors | {"characters": characters}), before)


@pytest.mark.parametrize("token_bytes", [None, SPELLINGS[1:]], ids=["none", "too few"])
def test_a_spelling_of_each_token_is_needed(token_bytes):
    with refused(f"expected the bytes of {VOCABULARY} tokens, got (none|36)"):
        build_model(small_config("elmo"), VOCABULARY, {}, token_bytes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dim": 7}, "dim: expected an even number"),
        ({"filters": ((8, 2),)}, "at most max_characters 7"),
    ],
    ids=["odd", "wide filter"],
)
def test_sizes_that_contradict_each_other_are_refused(changes, message):
    with pytest.raises(ValidationError, match=message):
        small_config("elmo", **changes)
