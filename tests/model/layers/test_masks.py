"""A token's state does not change by a single bit when a token changes that it may not see."""

import torch

from clozeline.model.layers.masks import padding_mask, pair_mask, plan_attention, real_tokens


def test_documents_and_modes_together():
    batch = {"input_ids": torch.zeros(1, 3), "document_ids": torch.tensor([[0, 0, 1]])}
    assert pair_mask({"input_ids": batch["input_ids"]}) is None
    modes = {"attention": torch.tensor([1]), "prefix_length": torch.tensor([0])}
    assert pair_mask(batch | modes).int().tolist() == [[[[1, 0, 0], [1, 1, 0], [0, 0, 1]]]]


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
