"""A token's state does not change by a single bit when a token changes that it may not see."""

import torch

from model.masks import padding_mask, plan_attention


def test_no_mask_where_nothing_is_padded():
    assert padding_mask(torch.tensor(4), 4, torch.device("cpu")) is None
    assert padding_mask(torch.tensor([4, 4]), 4, torch.device("cpu")).all()
    mask = padding_mask(torch.tensor([4, 1]), 4, torch.device("cpu"))
    assert mask.squeeze().tolist() == [[True] * 4, [True, False, False, False]]


def test_the_plan_is_the_least_that_attention_needs():
    padding = padding_mask(torch.tensor([2, 1]), 2, torch.device("cpu"))
    bias = torch.tensor([[[[0.5, 1.0], [2.0, 0.25]]]])
    assert plan_attention(None, None, causal=False)[:2] == (None, False)
    assert plan_attention(None, padding, causal=True)[:2] == (None, True)
    assert plan_attention(None, padding, causal=False).mask is padding
    assert plan_attention(bias, None, causal=False).mask is bias
    causal = plan_attention(bias, None, causal=True)
    assert not causal.causal
    assert (causal.mask[0, 0] < -1e38).tolist() == [[False, True], [False, False]]
    padded = plan_attention(bias, padding, causal=False).mask
    assert (padded[:, 0] < -1e38).tolist() == [[[False, False]] * 2, [[False, True]] * 2]
    assert padded[0].eq(bias[0]).all()
