"""Likelihoods against the loss of training, loops over prefixes, and a uniform model.

Windows against their rules.
"""

import itertools

import pytest
import torch

import clozeline.model.scoring.causal
from clozeline.errors import BatchError
from clozeline.model.configuration.position import PositionConfig
from clozeline.model.scoring.causal import (
    log_likelihoods,
    log_likelihoods_in_windows,
    split_windows,
)
from tests.model.adapters.adapted_models import adapted
from tests.model.generation.test_generate import perturbed, tensors_of
from tests.model.small_models import VOCABULARY, built
from tests.refusals import refused

ROWS = [[5, 9, 30, 7, 11, 4, 8], [17], [3, 36, 12], [20, 21, 22, 23, 24], [5, 9, 31], [2, 2]]


def by_prefixes(network, row, context=10**9, **more):
    """The log-probability of each token, its context alone read for it."""
    head = next(name for name in network.heads)
    found = []

    for at in range(1, len(row)):
        with torch.no_grad():
            scores = network.logits(tensors_of(row[max(0, at - context) : at], "") | more)[head][
                0, -1
            ]
        found.append(float(scores.double().log_softmax(-1)[row[at]]))

    return found


@pytest.mark.parametrize("tokens", [1, 7, 8192])
@pytest.mark.parametrize("family", ["decoder", "awd_lstm", "elmo"])
def test_each_token_is_scored_from_those_before_it(family, tokens):
    network = perturbed("decoder") if family == "decoder" else built(family).eval()
    found = log_likelihoods(network, ROWS, tokens=tokens)
    for row, scores in zip(ROWS, found, strict=True):
        assert scores.dtype == torch.float64
        assert scores.tolist() == pytest.approx(by_prefixes(network, row), abs=1e-5)


def test_a_beginning_that_rows_share_is_scored_once(monkeypatch):
    """Its tokens have the same score in all of them, to the bit.

    A row that was there already is not read.
    """
    network = perturbed("decoder")
    rows = [[5, 9, 30, 7], [5, 9, 31], [5, 9, 30, 7], [5, 9], [9, 30]]
    scored = []
    real = clozeline.model.scoring.causal.log_probabilities
    monkeypatch.setattr(
        "clozeline.model.scoring.causal.log_probabilities",
        lambda head, states, tokens, *more: (
            scored.extend(tokens.tolist()) or real(head, states, tokens, *more)
        ),
    )

    found = log_likelihoods(network, rows)

    assert sorted(scored) == [7, 9, 30, 30, 31]
    assert found[0][0] == found[1][0] == found[3][0]
    assert torch.equal(found[0], found[2])

    for row, scores in zip(rows, found, strict=True):
        assert scores.tolist() == pytest.approx(by_prefixes(network, row), abs=1e-5)


def test_an_encoder_reads_from_the_left():
    network = built("encoder", type_vocab_size=0).eval()
    modes = {
        "attention": torch.tensor([1]),
        "prefix_length": torch.tensor([0]),
    }
    for row, scores in zip(ROWS, log_likelihoods(network, ROWS), strict=True):
        assert scores.tolist() == pytest.approx(by_prefixes(network, row, **modes), abs=1e-5)


def test_scores_are_held_in_parts(monkeypatch):
    network = perturbed("decoder")
    whole = log_likelihoods(network, ROWS)
    monkeypatch.setattr(
        "clozeline.model.scoring.batches._SCORES_IN_MEMORY", {"cpu": 4 * VOCABULARY}
    )
    for first, second in zip(whole, log_likelihoods(network, ROWS), strict=True):
        assert torch.allclose(first, second, atol=1e-6)


@pytest.mark.parametrize(
    ("length", "stride"), [(1, 1), (4, 1), (4, 3), (4, 4), (3, 2), (50, 50), (50, 1)]
)
@pytest.mark.parametrize("tokens", [0, 1, 2, 5, 6, 23])
def test_windows_score_each_token_once(tokens, length, stride):
    found = [*split_windows(tokens, length, stride)]
    scored = [at for window in found for at in range(window.scored, window.end)]

    assert scored == [*range(1, tokens)]

    for number, window in enumerate(found):
        assert window.end - 1 - window.first <= length
        assert window.first == number * stride
        assert window.end - window.scored <= (stride if number else length)
        if stride == 1 and number:
            assert window.scored - window.first == length


@pytest.mark.parametrize(("length", "stride"), [(4, 1), (4, 3), (4, 4), (1, 1), (9, 2)])
def test_a_windowed_score_sees_the_window_alone(length, stride):
    network = perturbed("decoder")
    rows = [
        list(itertools.islice(itertools.cycle(ROWS[0]), 23)),
        ROWS[2],
        [7],
    ]
    for row, scores in zip(
        rows, log_likelihoods_in_windows(network, rows, length, stride), strict=True
    ):
        expected = []
        for window in split_windows(len(row), length, stride):
            part = by_prefixes(network, row[window.first : window.end])
            expected += part[window.scored - window.first - 1 :]

        assert scores.tolist() == pytest.approx(expected, abs=1e-5)

        if stride == 1:
            assert scores.tolist() == pytest.approx(
                by_prefixes(network, row, context=length), abs=1e-5
            )


def test_what_cannot_be_scored_is_refused():
    with pytest.raises(BatchError, match="text 0: it has 7 tokens, but the position table holds 6"):
        log_likelihoods(perturbed("decoder", position=PositionConfig(maximum=6)), [[1] * 8])

    assert (
        len(log_likelihoods(perturbed("decoder", position=PositionConfig(maximum=7)), [[1] * 8])[0])
        == 7
    )

    with refused("got an encoder-decoder"):
        log_likelihoods(perturbed("encoder_decoder"), ROWS)
    with refused("evaluation mode"):
        log_likelihoods(perturbed("decoder").train(), ROWS)
    with pytest.raises(ValueError, match="stride: expected 1 to 3, the length of a window, got 4"):
        [*split_windows(9, 3, 4)]


def test_an_adapter_takes_positions_of_the_table_from_a_text():
    network = adapted(
        "decoder", "prompt", length=3, changes={"position": PositionConfig(maximum=8)}
    )

    assert len(log_likelihoods(network, [[1] * 6])[0]) == 5

    with pytest.raises(BatchError, match="text 1: it has 6 tokens, but the position table holds 5"):
        log_likelihoods(network, [[1] * 6, [1] * 7])
