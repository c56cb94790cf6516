"""AWD-LSTM: its stack against torch's, its dropouts one by one, and its continuations."""

import torch
from torch.nn import functional as F

from clozeline.model.generation.decoding import Decoding
from clozeline.model.generation.generate import generate
from tests.model.generation.test_generate import PROMPTS, greedy, read_anew
from tests.model.small_models import batch_for, built, states

SMALL = {
    "dim": 24,
    "layers": 3,
    "cell_dim": 20,
    "heads": {"regularized_lm": {"activation_penalty": 0.02, "change_penalty": 0.01}},
}
"""The token table is 24 wide, as that of all small families."""


def perturbed(**changes):
    network = built("awd_lstm", **changes)
    torch.manual_seed(5)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return network


def test_dropout_of_words_and_features_is_the_papers():
    """Words of the table, then features of the embeddings, then features between layers.

    The last one has none here.
    """
    network = perturbed(word_dropout=0.3, dropout={"embedding": 0.4, "hidden": 0.5})
    tensors = batch_for("awd_lstm", lengths=[11, 8])
    ids = tensors["input_ids"]
    torch.manual_seed(9)
    found = states(network, tensors)
    torch.manual_seed(9)
    x = network.family.tokens.weight[ids] * F.dropout(torch.ones(37), 0.3)[ids][..., None]
    x = x * F.dropout(torch.ones(2, 1, 24), 0.4)

    for number, layer in enumerate(network.family.layers):
        if number:
            x = x * F.dropout(torch.ones(2, 1, 20), 0.5)
        x = layer(x)[0]

    assert torch.allclose(found, x, atol=1e-6)


def test_each_row_continues_as_if_it_were_alone():
    """Prompts of other lengths, and their padding, change nothing; nothing is read twice."""
    network = perturbed().eval()
    found = [one.ids for one in generate(network, PROMPTS, Decoding(max_tokens=9))]
    assert found == [read_anew(network, prompt, 9, greedy) for prompt in PROMPTS]
    assert len({*map(tuple, found)}) == 4
