"""Score each token of a text; the sum is what perplexity, minimal pairs and prompts compute."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import torch

from clozeline.errors import ConfigurationError
from clozeline.extensions.evaluation.prompting import scorers
from clozeline.extensions.evaluation.prompting.template import LabelPrompt
from clozeline.model.layers.stack import record_outputs
from clozeline.model.layers.vocabulary import VocabularyProjection
from clozeline.model.scoring.batches import has_prediction_order
from clozeline.tools.runs.inference import text_likelihoods
from clozeline.train.checkpoint.trained_model import TrainedModel


def score_tokens(
    trained: TrainedModel, text: str, source: str | None = None, choose: Sequence[int] = ()
) -> list[dict[str, object]]:
    """Return the predicted tokens of a text, in the order of prediction.

    `position` counts the tokens of the text from 1. `nats` is the natural log-probability, `sum`
    that of the tokens so far. `rank` is 1 if no token of the vocabulary is more probable. Where one
    attention aligns a text with its source, further keys have the weight of each source token.

    Args:
        trained: any language model.
        text: its text; a first token that nothing precedes is not predicted.
        source: what a decoder reads before the text, or the encoder of an encoder-decoder.
        choose: tokens of the text, from 1: those that a masked model predicts while all of them
            are masked, or the order of a model that predicts in a given order; empty: each token.

    Raises:
        ConfigurationError: the text lacks tokens, or the model cannot do it.
        BatchError: the text is longer than the position table.
    """
    projections = (
        each for each in trained.model.modules() if isinstance(each, VocabularyProjection)
    )
    alignment = trained.model.family.aligned_by
    attention: list[dict[str, object]] = []
    with (
        record_outputs(*projections) as outputs,
        record_outputs(*([] if alignment is None else [alignment])) as weights,
    ):
        if choose or source is not None or has_prediction_order(trained.model):
            masks: scorers.Masks = "independent" if choose else "left_to_right"
            scorer, mode = scorers.open_scorer(trained, None, masks)
            if choose and mode != "cloze":
                raise ConfigurationError(
                    "choose: this model masks no token, and predicts in one order; remove it"
                )
            candidate = scorer.candidate(LabelPrompt(source or "", ""), text)
            row = candidate.answer or candidate.ids
            ids = [row[position] for position in candidate.positions]
            every = range(1, len(ids) + 1)
            numbers = choose or every
            if len({*numbers} & {*every}) < len(numbers):
                raise ConfigurationError(
                    f"choose: TEXT has tokens 1 to {len(ids)}; name each at most once"
                )
            positions = tuple(candidate.positions[number - 1] for number in numbers)
            (values,) = scorer.scores([replace(candidate, positions=positions)])
            if weights:
                pieces = [
                    f"{number} {trained.tokenizer.piece(token)}"
                    for number, token in enumerate(candidate.ids, 1)
                ]
                attention = [
                    dict(zip(pieces, weights[-1][0, position].tolist(), strict=True))
                    for position in positions
                ]
        else:
            text_scorer, kind = text_likelihoods.open_scorer(trained, None)
            encoded = trained.tokenizer.encode([text])
            ids = encoded[0].ids.tolist()
            (values,) = text_scorer.score_tokens([text], encoded, kind)
            numbers = range(1, len(ids) + 1)[len(ids) - len(values) :]

    if not numbers:
        raise ConfigurationError("TEXT has no token to predict")

    nats = values.tolist()
    rows = torch.cat(outputs)[-len(nats) :]
    return [
        {
            "position": number,
            "token": trained.tokenizer.piece(token := ids[number - 1]),
            "id": token,
            "nats": value,
            "sum": total,
            "rank": 1 + int((scores > scores[token]).sum()),
            **reads,
        }
        for number, value, total, scores, reads in zip(
            numbers, nats, accumulate(nats), rows, attention or [{}] * len(nats), strict=True
        )
    ]
