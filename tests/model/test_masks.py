"""A token's state does not change by a single bit when a token changes that it may not see."""

import torch

from model.masks import padding_mask, plan_attention, window_mask


def test_no_mask_where_nothing_is_padded():
    assert padding_mask(torch.tensor(4), 4, torch.device("cpu")) is None
    assert padding_mask(torch.tensor([4, 4]), 4, torch.device("cpu")).all()
    mask = padding_mask(torch.tensor([4, 1]), 4, torch.device("cpu"))
    assert mask.squeeze().tolist() == [[True] * 4, [True, False, False, False]]


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
