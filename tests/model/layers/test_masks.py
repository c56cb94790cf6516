"""A token's state does not change by a single bit when a token changes that it may not see."""

import torch

from clozeline.model.layers.masks import padding_mask, pair_mask, plan_attention, rank_mask, real_tokens, window_mask


def test_no_mask_where_nothing_is_padded():
    assert padding_mask(torch.tensor(4), 4, torch.device("cpu")) is None
    assert padding_mask(torch.tensor([4, 4]), 4, torch.device("cpu")).all()
    mask = padding_mask(torch.tensor([4, 1]), 4, torch.device("cpu"))
    assert mask.squeeze().tolist() == [[True] * 4, [True, False, False, False]]


def test_rows_that_are_padded_on_the_left():
    mask = padding_mask(torch.tensor([4, 1, 2]), 4, torch.device("cpu"), torch.tensor([0, 3, 1]))
    wanted = [[True] * 4, [False, False, False, True], [False, True, True, False]]
    assert mask.squeeze().tolist() == wanted


def test_documents_and_modes_together():
    batch = {"input_ids": torch.zeros(1, 3), "document_ids": torch.tensor([[0, 0, 1]])}
    assert pair_mask({"input_ids": batch["input_ids"]}) is None
    modes = {"attention": torch.tensor([1]), "prefix_length": torch.tensor([0])}
    assert pair_mask(batch | modes).int().tolist() == [[[[1, 0, 0], [1, 1, 0], [0, 0, 1]]]]


def test_reading_by_rank_pair_by_pair():
    """Content reads what is predicted before it and itself; a query what is predicted before it."""
    rank = torch.tensor([[0, 3, 0, 1, 2], [0, 0, 0, 0, 1]])
    found = rank_mask(rank, 3)[:, 0].tolist()
    for row in range(2):
        ranks = rank[row].tolist()
        for j, other in enumerate(ranks):
            assert [found[row][i][j] for i in range(5)] == [other == 0 or other <= own for own in ranks]
            assert [found[row][5 + r - 1][j] for r in (1, 2, 3)] == [other < r for r in (1, 2, 3)]


def test_the_plan_is_the_least_that_attention_needs():
    padding = padding_mask(torch.tensor([2, 1]), 2, torch.device("cpu"))
    bias = torch.tensor([[[[0.5, 1.0], [2.0, 0.25]]]])
    assert plan_attention(None, None, causal=False)[:2] == (None, False)
    assert plan_attention(None, None, causal=True)[:2] == (None, True)
    assert plan_attention(None, padding, causal=False).mask is padding
    assert plan_attention(bias, None, causal=False).mask is bias
    causal = plan_attention(bias, None, causal=True)
    assert not causal.causal
    assert (causal.mask[0, 0] < -1e38).tolist() == [[False, True], [False, False]]
    padded = plan_attention(bias, padding, causal=False).mask
    assert (padded[:, 0] < -1e38).tolist() == [[[False, False]] * 2, [[False, True]] * 2]
    assert padded[0].eq(bias[0]).all()


def test_a_causal_stack_that_is_given_padding_hides_both():
    left = padding_mask(torch.tensor([2, 3]), 3, torch.device("cpu"), torch.tensor([1, 0]))
    assert left.squeeze().tolist() == [[False, True, True], [True] * 3]
    plan = plan_attention(None, left, causal=True)
    assert not plan.causal
    lower = [[True, False, False], [True, True, False], [True, True, True]]
    assert plan.mask[1, 0].tolist() == lower
    assert plan.mask[0, 0].tolist() == [[True, False, False], [False, True, False], [False, True, True]]


def test_a_window_is_as_wide_on_both_sides():
    places = torch.arange(6)[None]
    near = window_mask(places, places, 2)[0, 0].tolist()
    assert near == [[abs(query - key) <= 2 for key in range(6)] for query in range(6)]
    assert window_mask(places[:, 4:], places, 0)[0, 0].nonzero().tolist() == [[0, 4], [1, 5]]


def test_real_tokens():
    tensors = {
        "input_ids": torch.zeros(3, 4),
        "row_weight": torch.tensor([1.0, 0.0, 1.0]),
        "lengths": torch.tensor([2, 4, 3]),
    }
    assert real_tokens(tensors).tolist() == [[1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 0]]
    left = {**tensors, "left_padding": torch.tensor([1, 0, 1])}
    left["lengths"] = torch.tensor([2, 4, 3])
    assert real_tokens(left).tolist() == [[0, 1, 1, 0], [0, 0, 0, 0], [0, 1, 1, 1]]
    assert real_tokens({**tensors, "lengths": torch.tensor(4)}).sum() == 8
    choices = {"input_ids": torch.zeros(3, 2), "row_weight": torch.tensor([1.0, 0.0]), "choices": torch.tensor([1, 2])}
    assert real_tokens({**choices, "lengths": torch.tensor([2, 2, 2])}).tolist() == [[1, 1], [0, 0], [0, 0]]
