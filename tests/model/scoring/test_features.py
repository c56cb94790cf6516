"""States of all layers against transformers', and vectors that depend on their row alone."""

import pytest
import torch

from clozeline.errors import BatchError
from clozeline.model.checkpoints.checkpoint import build_checkpoint
from clozeline.model.checkpoints.reading import read_checkpoint
from clozeline.model.scoring.features import check_layer, token_vectors
from tests.extensions.published.peers import saved
from tests.model.small_models import VOCABULARY, built
from tests.refusals import refused

ROWS = [[5, 6, 7, 8, 9, 10, 11], [7], [3, 9, 9], [30, 2, 1, 4, 8, 16, 32], [12, 13]]


@pytest.mark.parametrize("kind", ["bert", "gpt2", "t5"])
def test_states_of_layers_are_those_of_transformers(tmp_path, kind):
    """Every layer's, of rows that are padded."""
    depth = {"gpt2": "n_layer", "t5": "num_layers"}.get(kind, "num_hidden_layers")
    body = saved(tmp_path, kind, **{depth: 4}).base_model
    model = build_checkpoint(read_checkpoint(tmp_path)).eval()
    body = body.encoder if kind == "t5" else body
    found = {layer: token_vectors(model, ROWS, str(layer), tokens=14) for layer in range(5)}

    for number, row in enumerate(ROWS):
        with torch.no_grad():
            wanted = body(input_ids=torch.tensor([row]), output_hidden_states=True).hidden_states
        assert len(wanted) == 5
        for layer, state in enumerate(wanted):
            assert (found[layer][number] - state[0]).abs().max() < 1e-5, layer

    concatenated, summed = (
        token_vectors(model, ROWS, layer) for layer in ("last4_concat", "last4_sum")
    )

    for number in range(len(ROWS)):
        of = [found[layer][number] for layer in (1, 2, 3, 4)]
        assert (concatenated[number] - torch.cat(of, 1)).abs().max() < 1e-5
        assert (summed[number] - sum(of)).abs().max() < 1e-5


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (
            "3",
            "expected table, last, last4_concat, last4_sum, scalar_mix, or a number from -3 to 2",
        ),
        ("-4", "a number from -3 to 2"),
        ("top", "layer=top: expected"),
        ("last4_sum", "expected a model of 4 layers or more, got 2"),
        ("scalar_mix", "none of the heads masked_lm has learned a mix"),
    ],
)
def test_layers_that_are_not_there(layer, message):
    with refused(message):
        check_layer(built("encoder").eval(), layer)


def test_models_that_cannot_be_read():
    with refused("call eval"):
        check_layer(built("encoder"), "last")
    with refused("got the family xlnet"):
        check_layer(built("xlnet").eval(), "last")
    long = built("encoder").eval()
    with pytest.raises(BatchError, match="the position table holds"):
        token_vectors(long, [[VOCABULARY - 1] * (long.config.position.limit + 1)], "last")
