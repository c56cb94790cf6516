"""Continuations against whole rows read again at each step."""

import pytest
import torch

from clozeline.model.configuration.position import PositionConfig
from clozeline.model.decoding.sampling import draw, probabilities, uniform
from clozeline.model.generation.decoding import Continuation, Decoding
from clozeline.model.generation.generate import generate
from tests.model.layers.test_cache import KINDS
from tests.model.layers.test_cache import perturbed as perturbed_once

PROMPTS = [[5, 9, 30, 7, 11, 4, 8], [17], [3, 36, 12], [20, 21, 22, 23, 24]]
START = {"decoder": {}, "encoder_decoder": {"decoder_start": 0}}


def perturbed(family, **changes):
    """A model with random weights that does not repeat one token for ever."""
    network = perturbed_once(family, **changes)
    for parameter in network.parameters():
        parameter.data = 2 * parameter.data if parameter.ndim > 1 else parameter.data
    return network


def read_anew(network, prompt, tokens, choose, prefix=False, decoder_start=None):
    """The continuation of one prompt, its whole row read at every step."""
    start = [decoder_start] if isinstance(decoder_start, int) else decoder_start
    row, side = (list(prompt), "") if start is None else (list(start), "decoder_")
    given = {} if decoder_start is None else tensors_of(prompt, "")
    if prefix:
        given["prefix_length"] = torch.tensor([len(prompt)])
    found = []

    for step in range(tokens):
        with torch.no_grad():
            (scores,) = network.logits(given | tensors_of(row, side)).values()
        found.append(choose(scores[:, -1], step))
        row.append(found[-1])

    return found


def tensors_of(row, side):
    return {
        f"{side}input_ids": torch.tensor([row]),
        f"{side}position_ids": torch.arange(len(row))[None],
        f"{side}lengths": torch.tensor([len(row)]),
    }


def greedy(scores, step):
    return int(scores.argmax())


@pytest.mark.parametrize("family", START)
@pytest.mark.parametrize("kind", KINDS)
def test_each_row_is_what_it_is_alone_without_a_cache(family, kind):
    network = perturbed(family, position=KINDS[kind])
    found = generate(network, PROMPTS, Decoding(max_tokens=9), **START[family])
    for prompt, continuation in zip(PROMPTS, found, strict=True):
        assert continuation == Continuation(
            read_anew(network, prompt, 9, greedy, **START[family]), "max_tokens"
        )

    assert len({tuple(continuation.ids) for continuation in found}) > 2


def test_a_prefix_is_read_in_both_directions():
    network = perturbed("decoder", position=KINDS["t5"])
    found = generate(network, PROMPTS, Decoding(max_tokens=9), prefix=True)
    for prompt, continuation in zip(PROMPTS, found, strict=True):
        assert continuation.ids == read_anew(network, prompt, 9, greedy, prefix=True)
    assert found != generate(network, PROMPTS, Decoding(max_tokens=9))


def test_a_decoder_continues_what_it_begins_with():
    network = perturbed("encoder_decoder")
    (found,) = generate(network, [[3]], Decoding(max_tokens=9), decoder_start=[1, 7, 5])

    assert found.ids == read_anew(network, [3], 9, greedy, decoder_start=[1, 7, 5])
    assert found.ids != read_anew(network, [3], 9, greedy, decoder_start=1)


@pytest.mark.parametrize("family", START)
def test_draws_depend_on_seed_row_and_step_alone(family):
    network = perturbed(family)
    decoding = Decoding(max_tokens=9, mode="sample", temperature=1.5, top_k=20, top_p=0.95, seed=7)
    together = generate(network, PROMPTS, decoding, **START[family])

    for row, prompt in enumerate(PROMPTS):
        torch.manual_seed(row)

        assert generate(
            network,
            [prompt],
            decoding,
            rows=[row],
            **START[family],
        ) == [together[row]]

        def drawn(scores, step, row=row):
            return int(draw(probabilities(scores, 1.5, 20, 0.95), [uniform(7, row, step)]))

        assert together[row].ids == read_anew(network, prompt, 9, drawn, **START[family])

    assert together != generate(
        network,
        PROMPTS,
        Decoding(max_tokens=9, mode="sample", temperature=1.5, seed=8),
        **START[family],
    )

    alike = generate(
        network,
        PROMPTS[:1] * 2,
        decoding,
        rows=[3, 3],
        **START[family],
    )

    assert (
        alike[0]
        == alike[1]
        != generate(network, PROMPTS[:1], decoding, rows=[4], **START[family])[0]
    )


def test_a_row_ends_by_a_token_a_number_or_the_table():
    network = perturbed("decoder", position=PositionConfig(maximum=8))
    free = generate(network, PROMPTS, Decoding(max_tokens=40))

    assert [len(continuation.ids) for continuation in free] == [2, 8, 6, 4], (
        "the last token needs no place"
    )
    assert {continuation.stop for continuation in free} == {"positions"}
    assert [row.stop for row in generate(network, PROMPTS, Decoding(max_tokens=2))] == [
        "max_tokens"
    ] * 4
    assert [row.stop for row in generate(network, PROMPTS, Decoding(max_tokens=3))] == [
        "positions",
        *["max_tokens"] * 3,
    ]

    end = free[1].ids[4]
    for continuation, ended in zip(
        free, generate(network, PROMPTS, Decoding(max_tokens=40), end_ids={end}), strict=True
    ):
        if end in continuation.ids:
            assert ended == Continuation(continuation.ids[: continuation.ids.index(end)], "end")
        else:
            assert ended == continuation

    assert generate(network, [], Decoding()) == []
