import doctest

import torch

import clozeline.model.layers.trigram
from clozeline.model.layers.masks import padding_mask
from clozeline.model.layers.trigram import neighbor_mask, trigrams


def test_neighbors_by_a_loop():
    """A neighbor is zeros where the row, the padding or a document begins."""
    torch.manual_seed(0)
    vectors, lengths = torch.randn(4, 7, 3), [7, 5, 1, 7]
    documents = torch.tensor([[0] * 7, [0] * 7, [0] * 7, [0, 0, 1, 2, 2, 2, 2]])
    joined = neighbor_mask(padding_mask(torch.tensor(lengths), 7, vectors.device), documents)
    found = trigrams(vectors, joined)
    assert found.shape == (4, 7, 9)
    for row, length in enumerate(lengths):
        for place in range(length):
            for part, other in enumerate((place + 1, place, place - 1)):
                inside = 0 <= other < length and documents[row, other] == documents[row, place]
                wanted = vectors[row, other] if inside else torch.zeros(3)
                assert torch.equal(found[row, place, 3 * part : 3 * part + 3], wanted), (row, place, other)


def test_full_rows_of_one_document_need_no_mask():
    assert neighbor_mask(None, None) is None
    vectors = torch.randn(2, 5, 3)
    assert torch.equal(trigrams(vectors, None), trigrams(vectors, torch.ones(2, 4, dtype=torch.bool)))


def test_examples_in_docstrings():
    assert doctest.testmod(clozeline.model.layers.trigram).attempted == 1
    assert doctest.testmod(clozeline.model.layers.trigram).failed == 0
