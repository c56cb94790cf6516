"""Modules with stored integers: forms, biases, and products that are prepared once."""

import torch
from torch import nn

from clozeline.model.layers.vocabulary import VocabularyProjection
from clozeline.model.quantization.formats.int4 import Int4
from clozeline.model.quantization.formats.int8 import Int8
from clozeline.model.quantization.modules import (
    StoredEmbedding,
    StoredLinear,
    StoredProjection,
    count_quantized,
    stored_modules,
    stored_tensors,
)

INT8 = Int8(Int8.Options())


def filled(module, weight):
    module.integers, module.scales = module.number_format.quantize(weight)
    return module


def test_a_linear_map_adds_its_bias():
    linear = nn.Linear(6, 4)
    stored = filled(StoredLinear(INT8, linear), linear.weight)
    x = torch.randn(2, 3, 6)
    assert stored.bias is linear.bias
    with torch.no_grad():
        assert torch.equal(stored(x), INT8.product(x, stored.integers, stored.scales, None) + linear.bias)
        assert torch.allclose(stored(x), linear(x), atol=0.05)
        assert torch.allclose(stored.weight, linear.weight, atol=0.01)


def test_rows_of_a_table_are_its_dequantized_rows():
    table = nn.Embedding(7, 4)
    stored = filled(StoredEmbedding(INT8, table), table.weight)
    ids = torch.tensor([[6, 0, 6]])
    assert torch.equal(stored(ids), stored.weight[ids])
    assert (stored.num_embeddings, stored.embedding_dim) == (7, 4)


def test_a_projection_cuts_padding_rows_and_reads_extra_columns():
    table = nn.Embedding(8, 4)
    projection = VocabularyProjection(4, 7, table, tied=True, bias=True, extra=2)
    with torch.no_grad():
        projection.bias.copy_(torch.arange(8.0))
    embedding = filled(StoredEmbedding(INT8, table), table.weight)
    stored = StoredProjection(INT8, projection, embedding)
    hidden = torch.randn(3, 6)
    with torch.no_grad():
        found = stored(hidden)
        assert found.shape == (3, 7)
        assert torch.allclose(found, projection(hidden), atol=0.1)
    assert list(stored_modules(nn.ModuleList([embedding, stored]))) == ["0"]
    assert count_quantized(nn.ModuleList([embedding, stored])) == {"0": 32}


def test_names_of_stored_tensors():
    linear = nn.Linear(4, 2)
    assert set(stored_tensors(nn.Sequential(StoredLinear(INT8, linear)))) == {"0.integers", "0.scales", "0.bias"}


def test_int4_is_dequantized_once(monkeypatch):
    int4, calls = Int4(Int4.Options(group=2)), []
    linear = nn.Linear(4, 2, bias=False)
    stored = filled(StoredLinear(int4, linear), linear.weight)
    plain = int4.dequantize
    monkeypatch.setattr(int4, "dequantize", lambda *args: calls.append(1) or plain(*args))
    x = torch.randn(3, 4)
    assert torch.equal(stored(x), stored(x))
    assert len(calls) == 1


def test_integers_move_with_the_module():
    linear = nn.Linear(4, 2)
    stored = filled(StoredLinear(INT8, linear), linear.weight).to(torch.float64)
    assert stored.integers.dtype == torch.int8
