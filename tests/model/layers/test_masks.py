"""Masks of rows, by hand; the tests of families and of the cache see what plans show."""

import torch

from clozeline.model.layers.masks import (
    pair_mask,
    real_tokens,
)


def test_documents_and_modes_together():
    batch = {
        "input_ids": torch.zeros(1, 3),
        "document_ids": torch.tensor([[0, 0, 1]]),
    }
    assert pair_mask({"input_ids": batch["input_ids"]}) is None
    modes = {
        "attention": torch.tensor([1]),
        "prefix_length": torch.tensor([0]),
    }
    assert pair_mask(batch | modes).int().tolist() == [[[[1, 0, 0], [1, 1, 0], [0, 0, 1]]]]


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

    choices = {
        "input_ids": torch.zeros(3, 2),
        "row_weight": torch.tensor([1.0, 0.0]),
        "choices": torch.tensor([1, 2]),
    }

    assert real_tokens({**choices, "lengths": torch.tensor([2, 2, 2])}).tolist() == [
        [1, 1],
        [0, 0],
        [0, 0],
    ]
