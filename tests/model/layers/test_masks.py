"""Masks and plans of attention against loops over rows, queries and keys."""

import pytest
import torch

from clozeline.model.layers.attention import attention_scores
from clozeline.model.layers.cache import Cache
from clozeline.model.layers.masks import (
    BLOCKED,
    AttentionPlan,
    PackedDocuments,
    pair_mask,
    plan_attention,
    plan_continuation,
    plan_source,
    prefix_mask,
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


def draw(*shape, seed):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.6


PAIRS = draw(2, 1, 4, 4, seed=1)
PADDING = torch.tensor(
    [
        [True] * 4,
        [True, True, False, False],
    ]
)[:, None, None]
BIAS = torch.randn(1, 3, 4, 4, generator=torch.Generator().manual_seed(2))


def reads(row, query, key, causal, pairs, prefix, padding):
    """Whether a position reads another: one of its row's tokens, of its pairs, and up to itself or
    in the prefix."""
    shown = not causal or key <= query or (prefix is not None and key < prefix[row])
    shown = shown and (pairs is None or bool(pairs[row, 0, query, key]))
    return shown and (padding is None or bool(padding[row, 0, 0, key]))


@pytest.mark.parametrize("bias", [None, BIAS], ids=["no bias", "bias"])
@pytest.mark.parametrize("padding", [None, PADDING], ids=["full", "padded"])
@pytest.mark.parametrize("pairs", [None, PAIRS], ids=["all", "pairs"])
@pytest.mark.parametrize(
    ("causal", "prefix"),
    [
        (False, None),
        (True, None),
        (True, torch.tensor([2, 0])),
    ],
    ids=["both ways", "causal", "prefix"],
)
def test_a_plan_shows_what_all_of_its_parts_allow(causal, pairs, prefix, padding, bias):
    rotation = torch.ones(1), torch.zeros(1)
    seen = None if prefix is None else prefix_mask(prefix, 4)
    plan = plan_attention(bias, padding, causal, rotation, pairs, seen)

    assert plan._replace(mask=None, causal=False) == AttentionPlan(rotation=rotation)
    assert not (plan.causal and plan.mask is not None)

    scores = attention_scores(
        torch.zeros(2, 3, 4, 1),
        torch.zeros(2, 3, 4, 1),
        plan,
        1.0,
        None,
    )
    # padding that reads nothing would be NaN
    itself = padding is not None and (causal or pairs is not None)

    for row, head, query, key in torch.cartesian_prod(*map(torch.arange, (2, 3, 4, 4))).tolist():
        shown = reads(row, query, key, causal, pairs, prefix, padding) or (itself and query == key)
        expected = (0.0 if bias is None else BIAS[0, head, query, key].item()) if shown else BLOCKED
        assert scores[row, head, query, key].item() == expected


@pytest.mark.parametrize(
    "bias",
    [None, BIAS[:, :, 2:]],
    ids=["no bias", "bias"],
)
@pytest.mark.parametrize(
    "pairs",
    [None, PAIRS[:, :, 2:]],
    ids=["all", "pairs"],
)
@pytest.mark.parametrize(
    "prefix",
    [None, torch.tensor([4, 0])],
    ids=["no prefix", "prefix"],
)
def test_a_continuation_reads_up_to_its_own_position(prefix, pairs, bias):
    cache = Cache(4)
    positions = torch.tensor([[2, 3], [1, 2]])
    columns = torch.arange(4)[None]
    seen = None if prefix is None else prefix_mask(prefix, 4)
    plan = plan_continuation(bias, None, positions, columns, seen, cache, pairs)

    assert (plan.cache, plan.causal) == (cache, False)

    mask = plan.mask.expand(2, 3, 2, 4)

    for row, head, query, key in torch.cartesian_prod(*map(torch.arange, (2, 3, 2, 4))).tolist():
        shown = key <= positions[row, query] or (prefix is not None and key < prefix[row])
        shown = bool(shown and (pairs is None or pairs[row, 0, query, key]))
        expected = shown if bias is None else bias[0, head, query, key].item() if shown else BLOCKED
        assert mask[row, head, query, key].item() == expected


@pytest.mark.parametrize("padding", [None, PADDING], ids=["full", "padded"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("prompt", [0, 2])
def test_a_source_shows_its_prompt_and_the_tokens_of_a_document(prompt, packed, padding):
    cache = Cache(4)
    source = torch.zeros(2, prompt + 4, 1)
    own = torch.tensor([[0, 0, 1], [0, 1, 1]])
    other = torch.tensor([[0, 1, 1, 1], [0, 0, 1, 1]])
    documents = (PackedDocuments(own), PackedDocuments(other)) if packed else (None, None)
    plan = plan_source(source, padding, *documents, cache, flat=True)

    assert plan._replace(mask=None) == AttentionPlan(cache=cache)

    if padding is None and not packed:
        assert plan.mask is None
        return

    mask = plan.mask.expand(2, 1, 3, prompt + 4)

    for row, query, key in torch.cartesian_prod(
        torch.arange(2), torch.arange(3), torch.arange(4)
    ).tolist():
        shown = not packed or own[row, query] == other[row, key]
        shown = shown and (padding is None or padding[row, 0, 0, key])
        assert mask[row, 0, query, prompt + key].item() == bool(shown)

    assert mask[..., :prompt].all()


def test_a_source_is_read_by_bounds_where_it_has_some_and_nothing_else_is_in_front_or_stored():
    documents = PackedDocuments(
        torch.zeros(1, 2),
        torch.tensor([0, 2], dtype=torch.int32),
        2,
    )

    for columns, cache, flat in [
        (2, None, True),
        (3, None, True),
        (2, Cache(2), True),
        (2, None, False),
    ]:
        plan = plan_source(torch.zeros(1, columns, 1), None, documents, documents, cache, flat=flat)
        bounded = columns == 2 and cache is None and flat

        assert (plan.documents is documents, plan.source_documents is documents) == (
            bounded,
            bounded,
        )
        assert (plan.mask is None) == bounded
