"""Spellings as ids, and the encoder of characters against loops."""

import torch
from torch.utils.flop_counter import FlopCounterMode

from clozeline.model.layers.characters import CHARACTERS, CharacterEncoder, character_ids

BEGIN = 259
END = 260
FILL = 261


def test_words_are_their_bytes_between_two_ends():
    found = character_ids(
        ["né".encode(), b"", b"abcdefgh", b"</s>", b"<unk>", b"<pad>"],
        6,
        {"eos": 3, "unk": 4, "pad": 5},
    )

    assert found.dtype == torch.int16
    assert found.tolist() == [
        [BEGIN, ord("n"), 0xC3, 0xA9, END, FILL],
        [BEGIN, END, FILL, FILL, FILL, FILL],
        [BEGIN, *b"abcd", END],
        [BEGIN, 257, END, FILL, FILL, FILL],
        [BEGIN, *b"<unk", END],
        [BEGIN, 258, END, FILL, FILL, FILL],
    ]
    assert CHARACTERS == 262, "as many as the published model has"


def encoder():
    torch.manual_seed(0)
    built = CharacterEncoder(4, ((1, 3), (2, 5), (6, 2)), 2, 7)
    for parameter in built.parameters():
        torch.nn.init.normal_(parameter)
    return built


def slow(built, word):
    """The vector of one word: maxima over places of each filter, relu, highways (arXiv 1505.00387),
    projection."""
    vectors = built.characters.weight[torch.tensor(word)]
    found = []

    for convolution in built.convolutions:
        size = convolution.kernel_size[0]

        for weight, bias in zip(convolution.weight, convolution.bias, strict=True):
            places = range(len(word) - size + 1)
            sums = [
                sum(vectors[at + n] @ weight[:, n] for n in range(size)) + bias for at in places
            ]
            found.append(max(max(sums), torch.tensor(0.0)))

    x = torch.stack(found)

    for highway in built.highways:
        width = len(x)
        mapped = (highway.weight[:width] @ x + highway.bias[:width]).relu()
        share = torch.sigmoid(highway.weight[width:] @ x + highway.bias[width:])
        x = share * mapped + (1 - share) * x

    return built.projection.weight @ x + built.projection.bias


def test_the_encoder_is_the_loop():
    built = encoder()
    characters = torch.randint(0, CHARACTERS, (2, 3, 8), dtype=torch.int16)
    with torch.no_grad():
        found = built(characters)
        expected = [[slow(built, word) for word in row] for row in characters.tolist()]

    assert found.shape == (2, 3, 7)
    assert torch.allclose(
        found, torch.stack([torch.stack(row) for row in expected]), atol=1e-3, rtol=1e-4
    )


def test_products_of_a_word_are_those_that_torch_counts():
    built = encoder()
    with FlopCounterMode(display=False) as counter:
        built(torch.zeros(1, 1, 8, dtype=torch.int16))
    assert built.flops(8) == counter.get_total_flops()
