"""Print the log-probability of each token: `clozeline log-probabilities mine/run "It is raining."`.

In nats, with the sum up to each token, and the rank of the token in the vocabulary. The last sum is
the score of the text in minimal pairs, perplexity and prompts.

    clozeline log-probabilities mine/gpt " is raining." source="It"
    clozeline log-probabilities mine/t5 "Es regnet." source="It is raining."
    clozeline log-probabilities mine/bert "It is raining." choose='[2, 4]'
    clozeline log-probabilities mine/xlnet "It is raining." choose='[1, 4, 3, 2]'

A decoder predicts each token from those before it, also after a `source`, which a prefix LM reads
in both directions. A masked model predicts the tokens that you choose while all of them are masked;
without a choice, each one masked alone. XLNet predicts in the order that you choose. For a
recurrent encoder-decoder with attention, further columns have the weight of each source token.
"""

import sys
from collections.abc import Sequence
from dataclasses import field
from typing import Annotated

from clozeline.command_line import Positional
from clozeline.configuration.config import config_class
from clozeline.pipeline.text.normal_form import normalize_field
from clozeline.terminal import align_rows
from clozeline.tools.command import run_as_script, run_tool
from clozeline.tools.options import CheckpointChoice, RunArgument
from clozeline.train.checkpoint.trained_model import TrainedModel


@config_class
class LogProbabilityOptions(CheckpointChoice, RunArgument):
    """A text, and how its tokens are predicted."""

    text: Annotated[str, Positional(1)]
    """the text; after a source, begin it with a space if spaces separate words"""
    source: str | None = None
    """text before it, or what the encoder of an encoder-decoder reads"""
    choose: list[int] = field(default_factory=list)
    """tokens to mask together, or the order in which XLNet predicts: `[1, 5, 3]`; tokens of the
    text count from 1, as in `clozeline show`"""


def _print_scores(options: LogProbabilityOptions) -> None:
    from clozeline.extensions.evaluation.token_scores import score_tokens

    trained = TrainedModel.open(options.run, options.step)
    source = options.source and normalize_field("prose", options.source)
    tokens = score_tokens(trained, normalize_field("prose", options.text), source, options.choose)
    cells = [
        [f"{value:.4f}" if isinstance(value, float) else str(value) for value in token.values()]
        for token in tokens
    ]
    for line in align_rows([[*tokens[0]], *cells], right=True):
        sys.stdout.write(f"{line}\n")


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, LogProbabilityOptions, _print_scores, prints=True)


if __name__ == "__main__":
    run_as_script(main)
