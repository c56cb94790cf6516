"""Tokens that a row may say next, against the rules in words and against transformers'
processors."""

import pytest
import torch
import transformers

from clozeline.errors import BatchError
from clozeline.model.generation.decoding import Decoding
from clozeline.model.generation.generate import generate
from clozeline.model.generation.rules import GrowingRow, Rules, check_next_tokens
from tests.model.generation.test_generate import PROMPTS, perturbed

HISTORIES = [[5, 6, 5, 6, 7, 5], [1, 1, 1], [9], [3, 2, 3, 2, 3]]


def rows_of(histories):
    return [
        GrowingRow(number, history[:1], 99, "max_tokens", history[1:])
        for number, history in enumerate(histories)
    ]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_penalty_and_bans_are_those_of_transformers_in_their_order(size):
    scores = torch.randn(4, 12, generator=torch.Generator().manual_seed(3)) * 3
    banned = [[8], [6, 4], [3, 2, 3, 11]]
    decoding = Decoding(repetition_penalty=1.7, no_repeat_ngram=size, min_tokens=3)
    found = Rules(decoding, {10}, banned).adjust(scores, rows_of(HISTORIES))

    for row, history in enumerate(HISTORIES):
        ids = torch.tensor([history])
        expected = scores[row : row + 1].clone()

        for processor in (
            transformers.RepetitionPenaltyLogitsProcessor(1.7),
            transformers.NoRepeatNGramLogitsProcessor(size),
            transformers.NoBadWordsLogitsProcessor(banned, eos_token_id=10),
            transformers.MinNewTokensLengthLogitsProcessor(1, 3, 10, device="cpu"),
        ):
            expected = processor(ids, expected)

        assert torch.equal(found[row], expected[0])


@pytest.mark.parametrize("mode", ["greedy", "sample", "beam"])
def test_a_row_ends_where_its_text_says_so(mode):
    network = perturbed("decoder")
    free = generate(network, PROMPTS, Decoding(mode=mode, max_tokens=12))
    word = free[1].ids[3:5]

    def finishes(ids):
        return any(ids[at : at + 2] == word for at in range(len(ids)))

    found = generate(network, PROMPTS, Decoding(mode=mode, max_tokens=12), finishes=finishes)
    stops = [one.stop for one in found]

    assert "string" in stops

    for one, before in zip(found, free, strict=True):
        if one.stop == "string":
            assert one.ids[-2:] == word
            assert not finishes(one.ids[:-1])
        if mode != "beam":
            assert one.ids == before.ids[: len(one.ids)]


def test_dead_ends_and_scores_that_are_no_numbers_are_refused():
    network = perturbed("decoder")

    with pytest.raises(
        BatchError, match="prompt 0: no token can follow after 0 new tokens, every token is banned"
    ):
        generate(network, PROMPTS, Decoding(), banned=[[token] for token in range(37)])

    network.heads["lm"].projection.extra = None
    with torch.no_grad():
        network.family.tokens.weight[0] = torch.nan
    with pytest.raises(
        BatchError,
        match="prompt 0: no token can follow after 0 new tokens, the model's scores are not num",
    ):
        generate(network, PROMPTS, Decoding())

    check_next_tokens(torch.tensor([1.0, -3.0]), rows_of(HISTORIES[:2]))
