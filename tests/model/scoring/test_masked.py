"""Pseudo-log-likelihoods against loops that mask one place, or the rest of a word, in a row of its
own."""

import pytest
import torch

from clozeline.model.scoring.masked import pseudo_log_likelihoods, pseudo_log_likelihoods_in_windows
from tests.model.generation.test_generate import perturbed, tensors_of
from tests.model.small_models import built
from tests.refusals import refused

MASK = 4
ROWS = [[1, 9, 30, 7, 11, 8, 2], [1, 17, 2], [1, 36, 12, 2], [1, 20, 21, 22, 23, 2], [1, 5, 6, 2]]
PLACES = [[*range(1, len(row) - 1)] for row in ROWS]
WORDS = [[0, 0, 0, 1, 2], [0], [0, 0], [0, 1, 1, 2], [0, 1]]


def one_by_one(network, row, places, words, previous):
    found = []

    for number, place in enumerate(places):
        masked = list(row)
        for other, at in enumerate(places):
            if other == number or (words and words[other] == words[number] and other > number):
                masked[at] = MASK

        with torch.no_grad():
            scores = network.logits(tensors_of(masked, ""))["masked_lm"][
                0, place - 1 if previous else place
            ]

        found.append(float(scores.double().log_softmax(-1)[row[place]]))

    return found


@pytest.mark.parametrize("tokens", [1, 30, 8192])
@pytest.mark.parametrize("previous", [False, True])
@pytest.mark.parametrize("words", [None, WORDS], ids=["pll", "pll_word"])
@pytest.mark.parametrize("family", ["encoder", "replaced_tokens", "mobilebert"])
def test_every_token_is_scored_where_it_is_masked(family, words, previous, tokens):
    network = built(family, seed=3).eval()
    for parameter in network.parameters():
        parameter.data = 3 * parameter.data if parameter.ndim > 1 else parameter.data
    found = pseudo_log_likelihoods(
        network, ROWS, PLACES, MASK, words=words, previous=previous, tokens=tokens
    )
    for number, scores in enumerate(found):
        of = words and words[number]
        expected = one_by_one(network, ROWS[number], PLACES[number], of, previous)
        assert scores.tolist() == pytest.approx(expected, abs=1e-5)


def test_a_window_masks_the_rest_of_a_word_where_it_is():
    """The third token is scored in [9, 30 .. 4]: its word goes on in the fourth."""
    network = built("encoder", seed=3).eval()
    text = [9, 30, 7, 11, 8, 5]
    words = [0, 1, 2, 2, 3, 4]
    (found,) = pseudo_log_likelihoods_in_windows(network, [text], 3, (1, 2, MASK), words=[words])
    wanted = one_by_one(
        network,
        [1, *text[1:4], 2],
        [1, 2, 3],
        words[1:4],
        False,
    )

    assert float(found[2]) == pytest.approx(wanted[1], abs=1e-5)


def test_other_models_are_refused():
    with refused("need an encoder of entire rows, got the family decoder"):
        pseudo_log_likelihoods(perturbed("decoder"), ROWS, PLACES, MASK)

    with refused("need an encoder of entire rows, got the family xlnet"):
        pseudo_log_likelihoods(built("xlnet").eval(), ROWS, PLACES, MASK)

    with refused("masked scores need a head of masked_lm"):
        pseudo_log_likelihoods(built("encoder", heads={"lm": 1.0}).eval(), ROWS, PLACES, MASK)
