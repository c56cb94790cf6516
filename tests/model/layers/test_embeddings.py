"""From token vectors to the input of a stack."""

import pytest
import torch

from clozeline.model.configuration.layer import DropoutConfig
from clozeline.model.layers.position import Position
from clozeline.model.layers.vocabulary import Embeddings
from tests.model.small_models import small_config


def embed(types=None, **changes):
    torch.manual_seed(0)
    layer = Embeddings(small_config("encoder", **changes))
    vectors, places = torch.randn(2, 5, layer_width(changes)), torch.arange(5).repeat(2, 1)
    return layer, vectors, layer(vectors, Position(), places, types)


def layer_width(changes):
    return changes.get("emb_dim", 24)


def test_dropout_is_the_last_step_before_the_layers():
    _, _, out = embed(dropout=DropoutConfig(embedding=0.5))
    assert 0.3 < out.eq(0).float().mean().item() < 0.7, "a norm after it would move the zeros"


def test_absent_type_ids_are_zero():
    layer, vectors, out = embed(emb_norm=False)
    assert torch.equal(out, vectors + layer.types.weight[0])
    _, _, other = embed(types=torch.ones(2, 5, dtype=torch.int64), emb_norm=False)
    assert torch.equal(other, vectors + layer.types.weight[1])


def test_scale_and_width():
    _, vectors, out = embed(emb_norm=False, types=None, emb_scale=True)
    layer, _, _ = embed(emb_norm=False)
    assert torch.allclose(out - layer.types.weight[0], vectors * 24**0.5, atol=1e-5)
    layer, _, out = embed(emb_dim=10)
    assert out.shape == (2, 5, 24)
    assert layer.project.bias is not None


@pytest.mark.parametrize("emb_norm", [True, False])
def test_the_norm_is_optional(emb_norm):
    _, _, out = embed(emb_norm=emb_norm)
    assert emb_norm == torch.allclose(out.mean(-1), torch.zeros(2, 5), atol=1e-5)
