"""Generation among given sequences: against enumeration."""

import math
from collections import Counter

import pytest

from clozeline.errors import BatchError
from clozeline.model.generation.decoding import Decoding
from clozeline.model.generation.generate import generate, generate_beams
from clozeline.model.generation.rules import AllowedSequences
from tests.model.generation.test_beam import few_symbols, sums_of
from tests.model.generation.test_generate import PROMPTS, START, perturbed
from tests.refusals import refused

END = 35
SEQUENCES = [[9, 8, 7], [9, 8], [9, 30], [12], [33, 2, 2, 2, 2], [33, 2, 2], [5, 9]]
"""Some begin with others, and some share a start."""


@pytest.mark.parametrize("family", START)
def test_a_beam_as_wide_as_the_set_ranks_all_of_it(family):
    """By the probability of each sequence and its end, the rows read at once."""
    network = perturbed(family)
    start = START[family]
    decoding = Decoding(mode="beam", width=len(SEQUENCES), max_tokens=6, length_penalty=0.0)
    found = generate_beams(
        network,
        PROMPTS,
        decoding,
        end_ids={END},
        allowed=AllowedSequences(SEQUENCES, {END}),
        **start,
    )
    for prompt, ranked in zip(PROMPTS, found, strict=True):
        sums = {
            tuple(one): float(sums_of(network, prompt, [[*one, END]], start)[0, -1])
            for one in SEQUENCES
        }
        expected = sorted(sums, key=lambda one: -sums[one])

        assert [tuple(one.ids) for one in ranked] == expected
        assert [one.score for one in ranked] == pytest.approx(
            [sums[one] for one in expected], abs=1e-4
        )


def test_samples_draw_among_the_allowed_tokens_of_each_step():
    network = few_symbols("decoder")
    end = 3
    prompt = [1, 4]
    sequences = [[1, 2], [1], [2, 2, 4], [4]]
    allowed = AllowedSequences(sequences, {end})
    decoding = Decoding(mode="sample", max_tokens=4)
    count = 4000
    drawn = generate(network, [prompt] * count, decoding, end_ids={end}, allowed=allowed)
    shares = Counter(tuple(one.ids) for one in drawn)

    assert {*shares} <= {*map(tuple, sequences)}

    for one in sequences:
        probability = 1.0

        for at, token in enumerate([*one, end]):
            options = {
                other: math.exp(float(sums_of(network, prompt, [[*one[:at], other]], {})[0, -1]))
                for other in allowed(one[:at])
            }
            probability *= options[token] / sum(options.values())

        deviation = math.sqrt(probability * (1 - probability) / count)

        assert abs(shares[tuple(one)] / count - probability) < 5 * deviation + 1e-6


def test_what_cannot_be_written_is_refused():
    network = perturbed("decoder")
    allowed = AllowedSequences(SEQUENCES, {END})

    with pytest.raises(
        BatchError,
        match=r"the longest text has 6 tokens with its end, but only 5 fit .*: raise max_tokens",
    ):
        generate(network, PROMPTS, Decoding(max_tokens=5), end_ids={END}, allowed=allowed)

    banned = [[one[0]] for one in SEQUENCES]

    with pytest.raises(
        BatchError, match="no token can follow after 0 new tokens, every token is banned"
    ):
        generate(
            network, PROMPTS, Decoding(max_tokens=6), end_ids={END}, banned=banned, allowed=allowed
        )

    for given, message in (
        (([], {END}), "expected texts of one token or more"),
        (([[5], []], {END}), "expected texts of one token or more"),
        (([[5]], ()), "the tokenizer has no end token"),
    ):
        with refused(message):
            AllowedSequences(*given)
