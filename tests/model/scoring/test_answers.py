"""Scores of answers against the loss of training and a loop over prefixes."""

import pytest
import torch

from clozeline.errors import BatchError
from clozeline.model.scoring.causal import answer_log_likelihoods
from tests.model.small_models import built
from tests.refusals import refused

ROWS = [[5, 9, 30, 7, 11, 4, 8], [17], [3, 36, 12], [20, 21, 22, 23, 24]]
ANSWERS = [[7, 2], [9, 30, 31, 2], [12], [1, 2, 3]]
START = 6


def tensors_of(row, read):
    places = {
        "position_ids": torch.arange(len(row))[None],
        "decoder_position_ids": torch.arange(len(read))[None],
    }
    ids = {
        "input_ids": torch.tensor([row]),
        "decoder_input_ids": torch.tensor([read]),
    }
    return {**ids, **places, "lengths": torch.tensor([len(row)])}


@pytest.mark.parametrize("tokens", [1, 12, 8192])
def test_each_token_is_scored_from_the_row_and_those_before_it(tokens):
    network = built("encoder_decoder").eval()
    for row, answer, scores in zip(
        ROWS,
        ANSWERS,
        answer_log_likelihoods(network, ROWS, ANSWERS, START, tokens=tokens),
        strict=True,
    ):
        expected = []
        for at, token in enumerate(answer):
            with torch.no_grad():
                logits = network.logits(tensors_of(row, [START, *answer[:at]]))["lm"][0, -1]
            expected.append(float(logits.double().log_softmax(-1)[token]))
        assert scores.tolist() == pytest.approx(expected, abs=1e-5)


def test_other_models_and_long_rows_are_refused():
    with refused("need an encoder-decoder, got the family decoder"):
        answer_log_likelihoods(built("decoder").eval(), ROWS, ANSWERS, START)
    from clozeline.model.configuration.position import PositionConfig

    short = built("encoder_decoder", position=PositionConfig(kind="learned", maximum=5)).eval()
    with pytest.raises(BatchError, match="7 tokens, but the position table holds 5"):
        answer_log_likelihoods(short, ROWS, ANSWERS, START)
