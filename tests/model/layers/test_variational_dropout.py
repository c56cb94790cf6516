import pytest
import torch

from clozeline.model.layers.variational_dropout import drop_features, drop_words


def test_features_are_dropped_at_all_tokens_of_a_row_and_apart_in_each_row():
    torch.manual_seed(0)
    kept = drop_features(torch.ones(4, 6, 1000), 0.25, training=True)
    assert kept.unique().tolist() == pytest.approx([0.0, 1 / 0.75])
    assert torch.equal(kept, kept[:, :1].expand_as(kept))
    assert abs(kept[:, 0].ne(0).float().mean().item() - 0.75) < 0.03
    assert not torch.equal(kept[0], kept[1])


def test_words_are_dropped_at_all_their_places():
    torch.manual_seed(0)
    ids = torch.randint(0, 500, (20, 100))
    kept = drop_words(torch.ones(20, 100, 3), ids, 500, 0.25, training=True)
    assert kept.unique().tolist() == pytest.approx([0.0, 1 / 0.75])
    factors = {(int(word), tuple(vector.tolist())) for word, vector in zip(ids.view(-1), kept.view(-1, 3), strict=True)}
    assert len(factors) == len(ids.unique())
    assert all(len(set(vector)) == 1 for _, vector in factors)
    assert abs(sum(vector[0] > 0 for _, vector in factors) / len(factors) - 0.75) < 0.06


def test_nothing_is_dropped_in_evaluation():
    x, ids = torch.randn(2, 3, 4), torch.zeros(2, 3, dtype=torch.int64)
    assert drop_features(x, 0.5, training=False) is x
    assert drop_words(x, ids, 9, 0.5, training=False) is x
    assert drop_features(x, 0.0, training=True) is x
