"""A recurrent encoder-decoder against LSTM cells of torch, row by row and token by token."""

import pytest
import torch
from torch import nn

from clozeline.errors import BatchError
from clozeline.model.generation.decoding import Decoding
from clozeline.model.generation.generate import generate
from clozeline.model.layers.cache import Cache
from clozeline.model.layers.stack import record_outputs
from tests.model.small_models import batch_for, built, changed, states

SMALL = {"cell_dim": 20, "heads": {"lm": 1.0}}
KINDS = ["none", "additive", "dot"]
NAME = "lstm_encoder_decoder"


def cells_of(layers):
    """Return torch's cells with the weights of the layers."""
    cells = []
    for layer in layers:
        cell = nn.LSTMCell(layer.input.shape[1], layer.outputs)
        cell.weight_ih.data = layer.input.data
        cell.weight_hh.data = layer.recurrent.data
        cell.bias_ih.data = layer.bias.data
        cell.bias_hh.data = torch.zeros_like(layer.bias)
        cells.append(cell)
    return cells


def read(cells, vectors, states):
    """Return the outputs of the last cell for vectors [T, width], and all states at the end."""
    outputs = []
    for vector in vectors:
        x = vector[None]
        for number, cell in enumerate(cells):
            states[number] = cell(x, states[number])
            x = states[number][0]
        outputs.append(x[0])
    return torch.stack(outputs), states


def slow_states(family, kind, source, target):
    """Return the states of a pair without padding, from the formulas of the papers."""
    vectors = family.tokens.weight
    empty = [None] * len(family.encoder)
    memory, last = read(cells_of(family.encoder), vectors[source], empty)
    first = []
    for (output, _), start in zip(last, family.starts, strict=True):
        cell = output @ start.weight.T + start.bias
        first.append((torch.tanh(cell), cell))
    written, _ = read(cells_of(family.decoder), vectors[target], first)
    rows = []
    weights = []
    for state in written:
        features = [state]
        if kind != "none":
            if kind == "dot":
                scores = [state @ other for other in memory]
            else:
                score = family.score
                scores = [
                    score.vector.weight[0]
                    @ (
                        score.target.weight @ state
                        + score.target.bias
                        + score.source.weight @ other
                    ).tanh()
                    for other in memory
                ]
            exponents = torch.stack(scores).exp()
            weights.append(exponents / exponents.sum())
            features.append(sum(w * other for w, other in zip(weights[-1], memory, strict=True)))
        rows.append((family.combine.weight @ torch.cat(features)).tanh())
    return torch.stack(rows), torch.stack(weights) if weights else None


@pytest.mark.parametrize("kind", KINDS)
def test_states_are_those_of_the_papers(kind):
    """Rows of different lengths: each starts from the state after its own last token."""
    family = built(NAME, attention=kind).eval().family
    tensors = batch_for(NAME, lengths=[11, 4, 1, 7])
    with record_outputs(family.alignment) as aligned, torch.no_grad():
        found = family(tensors)
        alignment = aligned[0] if aligned else None
        for row, length in enumerate(tensors["lengths"].tolist()):
            size = int(tensors["decoder_lengths"][row])
            source = tensors["input_ids"][row, :length]
            target = tensors["decoder_input_ids"][row, :size]
            expected, weights = slow_states(family, kind, source, target)
            assert torch.allclose(found[row, :size], expected, atol=1e-6)
            if weights is None:
                assert alignment is None
            else:
                assert torch.allclose(alignment[row, :size, :length], weights, atol=1e-6)
                assert not alignment[row, :, length:].any()


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_sees_the_source_and_the_tokens_before_it(kind):
    network = built(NAME, attention=kind).eval()
    tensors = batch_for(NAME, lengths=[11])
    before = states(network, tensors)
    later = states(network, changed(tensors, "decoder_input_ids", 0, 5))
    assert torch.equal(before[0, :5], later[0, :5])
    assert not torch.equal(before[0, 5], later[0, 5])
    assert (states(network, changed(tensors, "input_ids", 0, 10)) != before).all(-1).any()


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_one_by_one_have_the_states_of_the_row(kind):
    network = built(NAME, attention=kind).eval()
    tensors = batch_for(NAME, lengths=[11, 6, 3])
    whole = states(network, tensors)
    cache = Cache(9)
    with torch.no_grad():
        parts = [
            network.family.decode(
                tensors | {"decoder_input_ids": tensors["decoder_input_ids"][:, place, None]}, cache
            )
            for place in range(9)
        ]
    assert torch.allclose(torch.cat(parts, 1), whole, atol=1e-6)


@pytest.mark.parametrize("mode", ["greedy", "beam"])
def test_sources_of_different_lengths_are_continued_as_each_alone(mode):
    network = built(NAME).eval()
    prompts = [[5, 6, 7, 8, 9], [3], [4, 4, 2]]
    decoding = Decoding(mode=mode, max_tokens=6, **({"width": 3} if mode == "beam" else {}))
    together = generate(network, prompts, decoding, end_ids={1}, decoder_start=0)
    for prompt, one in zip(prompts, together, strict=True):
        (alone,) = generate(network, [prompt], decoding, end_ids={1}, decoder_start=0)
        assert alone.ids == one.ids


def test_packed_documents_are_refused():
    tensors = batch_for(NAME)
    documents = torch.zeros_like(tensors["input_ids"])
    with pytest.raises(BatchError, match="rows of one text"):
        built(NAME)(tensors | {"document_ids": documents})
